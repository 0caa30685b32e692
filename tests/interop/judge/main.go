// SPDX-License-Identifier: BSD-2-Clause

// The judge stands in for a Pyroscope server: it takes pushes with the published code of push.v1, refuses what a strict
// server would refuse, and adds up what it accepts.
//
// It prints the address that it listens on, a free port of 127.0.0.1, and serves until it is killed. Beside the service:
//
//	GET /report    everything added up, as JSON (report.go)
//	POST /reset    forgets all
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync"

	"connectrpc.com/connect"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	"github.com/grafana/pyroscope/api/gen/proto/go/push/v1/pushv1connect"
)

type judge struct {
	lock  sync.Mutex
	sums  *report
	known map[string][32]byte // what came by ID
}

func (j *judge) reset() {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.sums = newReport()
	j.known = map[string][32]byte{}
}

// Push accepts all of a request or nothing, as it would be sent again.
func (j *judge) Push(_ context.Context, r *connect.Request[pushv1.PushRequest]) (*connect.Response[pushv1.PushResponse], error) {
	j.lock.Lock()
	defer j.lock.Unlock()
	j.sums.noteRequest(r.Header())
	profiles, err := j.check(r.Msg)
	if err != nil {
		j.sums.Refused = append(j.sums.Refused, err.Error())
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	for _, p := range profiles {
		j.known[p.id] = p.hash
		j.sums.add(p)
	}
	return connect.NewResponse(&pushv1.PushResponse{}), nil
}

func (j *judge) writeReport(w http.ResponseWriter, _ *http.Request) {
	j.lock.Lock()
	defer j.lock.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(j.sums); err != nil {
		log.Print(err)
	}
}

func main() {
	j := &judge{}
	j.reset()
	mux := http.NewServeMux()
	mux.Handle(pushv1connect.NewPusherServiceHandler(j))
	mux.HandleFunc("GET /report", j.writeReport)
	mux.HandleFunc("POST /reset", func(http.ResponseWriter, *http.Request) { j.reset() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(listener.Addr())
	log.Fatal(http.Serve(listener, mux))
}
