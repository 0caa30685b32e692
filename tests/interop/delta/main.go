// SPDX-License-Identifier: BSD-2-Clause

// What Grafana Alloy's pyroscope.scrape does with the heap profiles that it fetches from a process, one after another: each
// but the first becomes the difference to the one before, by the package fastdelta. Usage: delta FILE… ; writes FILE.delta
// of each but the first.
package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"log"
	"os"

	"delta/v2/profiler/internal/fastdelta"
	"delta/v2/profiler/internal/pprofutils"
)

func unzipped(file string) []byte {
	data, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return data // pprof writes some without
	}
	if data, err = io.ReadAll(reader); err != nil {
		log.Fatal(err)
	}
	return data
}

func main() {
	computer := fastdelta.NewDeltaComputer(pprofutils.ValueType{Type: "alloc_objects", Unit: "count"},
		pprofutils.ValueType{Type: "alloc_space", Unit: "bytes"})
	for i, file := range os.Args[1:] {
		var delta bytes.Buffer
		if err := computer.Delta(unzipped(file), &delta); err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		if i > 0 {
			if err := os.WriteFile(file+".delta", delta.Bytes(), 0o644); err != nil {
				log.Fatal(err)
			}
		}
	}
}
