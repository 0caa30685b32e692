// SPDX-License-Identifier: BSD-2-Clause

// What is checked of a request, by the limits and rules of the server's defaults.

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"
	pushv1 "github.com/grafana/pyroscope/api/gen/proto/go/push/v1"
	typesv1 "github.com/grafana/pyroscope/api/gen/proto/go/types/v1"
)

const (
	maxProfileBytes    = 4 << 20
	maxSamples         = 16000
	maxSampleLabels    = 100
	maxSeriesLabels    = 30
	maxLabelNameBytes  = 1024
	maxLabelValueBytes = 2048
	oldest, newest     = time.Hour, 10 * time.Minute
)

// What a profile's values are, by its __name__: sample types, then the period type.
var kinds = map[string][]string{
	"memory": {
		"alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes space/bytes",
		"alloc_objects/count alloc_space/bytes space/bytes", // within 15 s of a push with memory in use
	},
	"process_cpu": {
		"cpu/nanoseconds cpu/nanoseconds",
		"samples/count cpu/nanoseconds cpu/nanoseconds",
	},
	"wall": {"wall/nanoseconds wall/nanoseconds"},
}

var (
	validName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.]*$`)
	validID   = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)
	spanID    = regexp.MustCompile(`^[0-9a-f]{16}$`)
	traceID   = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// A profile that was accepted.
type accepted struct {
	id     string
	hash   [32]byte
	repeat bool // the same came before
	labels map[string]string
	*profile.Profile
}

// check returns the profiles of a request that has no fault.
func (j *judge) check(r *pushv1.PushRequest) ([]accepted, error) {
	var all []accepted
	ids := map[string][32]byte{}
	maps.Copy(ids, j.known)
	for _, series := range r.Series {
		labels, err := checkSeries(series.Labels)
		if err != nil {
			return nil, fmt.Errorf("series %v: %w", series.Labels, err)
		}
		for _, raw := range series.Samples {
			p, err := checkProfile(raw.RawProfile, labels)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", labels["__name__"], raw.ID, err)
			}
			a := accepted{id: raw.ID, hash: hashOf(labels, raw.RawProfile), labels: labels, Profile: p}
			if a.repeat, err = checkID(ids, a); err != nil {
				return nil, err
			}
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no profile in the request")
	}
	return all, nil
}

func hashOf(labels map[string]string, raw []byte) [32]byte {
	return sha256.Sum256(append(fmt.Append(nil, labels), raw...))
}

// checkID tells whether the same profile came before under its ID.
func checkID(ids map[string][32]byte, a accepted) (repeat bool, err error) {
	if !validID.MatchString(a.id) {
		return false, fmt.Errorf("ID %q is no UUID", a.id)
	}
	hash, repeat := ids[a.id]
	if repeat && hash != a.hash {
		return true, fmt.Errorf("ID %s came before with other content", a.id)
	}
	ids[a.id] = a.hash
	return repeat, nil
}

// The server makes an underscore of a dot; our own client's names have none, see pyroscope_push.sh.
func checkSeries(pairs []*typesv1.LabelPair) (map[string]string, error) {
	labels, stored := map[string]string{}, map[string]bool{}
	for _, p := range pairs {
		name := strings.ReplaceAll(p.Name, ".", "_")
		if stored[name] {
			return nil, fmt.Errorf("label %s comes twice", name)
		}
		stored[name] = true
		if err := checkLabel(p.Name, p.Value); err != nil {
			return nil, err
		}
		labels[p.Name] = p.Value
	}
	switch {
	case len(labels) > maxSeriesLabels:
		return nil, fmt.Errorf("%d labels", len(labels))
	case labels["service_name"] == "":
		return nil, errors.New("no service_name")
	case kinds[labels["__name__"]] == nil:
		return nil, fmt.Errorf("__name__ is %q", labels["__name__"])
	case labels["__session_id__"] != "" && !spanID.MatchString(labels["__session_id__"]):
		return nil, fmt.Errorf("__session_id__ is %q", labels["__session_id__"])
	}
	return labels, nil
}

func checkLabel(name, value string) error {
	if !validName.MatchString(name) || len(name) > maxLabelNameBytes {
		return fmt.Errorf("label name %q", name)
	}
	if len(value) > maxLabelValueBytes {
		return fmt.Errorf("label %s has a value of %d bytes", name, len(value))
	}
	if !utf8.ValidString(value) {
		return fmt.Errorf("label %s is no UTF-8: %q", name, value)
	}
	return nil
}

func checkProfile(raw []byte, series map[string]string) (*profile.Profile, error) {
	plain, err := unpack(raw)
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseUncompressed(plain)
	if err != nil {
		return nil, err
	}
	if err := p.CheckValid(); err != nil {
		return nil, err
	}
	if age := time.Since(time.Unix(0, p.TimeNanos)); age > oldest || age < -newest {
		return nil, fmt.Errorf("time is %v", time.Unix(0, p.TimeNanos))
	}
	if err := checkKind(p, series["__name__"]); err != nil {
		return nil, err
	}
	if len(p.Sample) > maxSamples {
		return nil, fmt.Errorf("%d samples", len(p.Sample))
	}
	for _, f := range p.Function {
		if !utf8.ValidString(f.Name + f.SystemName + f.Filename) {
			return nil, fmt.Errorf("function %q is no UTF-8", f.Name)
		}
	}
	for _, s := range p.Sample {
		if err := checkSample(s, series); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func unpack(raw []byte) ([]byte, error) {
	var in io.Reader = bytes.NewReader(raw)
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b}) {
		var err error
		if in, err = gzip.NewReader(in); err != nil {
			return nil, err
		}
	}
	plain, err := io.ReadAll(io.LimitReader(in, maxProfileBytes+1))
	if err == nil && len(plain) > maxProfileBytes {
		err = fmt.Errorf("more than %d bytes uncompressed", maxProfileBytes)
	}
	return plain, err
}

func checkKind(p *profile.Profile, name string) error {
	var types strings.Builder
	for _, t := range p.SampleType {
		fmt.Fprintf(&types, "%s/%s ", t.Type, t.Unit)
	}
	if p.PeriodType != nil {
		fmt.Fprintf(&types, "%s/%s", p.PeriodType.Type, p.PeriodType.Unit)
	}
	if !slices.Contains(kinds[name], types.String()) {
		return fmt.Errorf("the values are %s", types.String())
	}
	return nil
}

func checkSample(s *profile.Sample, series map[string]string) error {
	for _, v := range s.Value {
		if v < 0 {
			return fmt.Errorf("a sample of %v", s.Value)
		}
	}
	if len(s.Label)+len(s.NumLabel) > maxSampleLabels {
		return fmt.Errorf("a sample with %d labels", len(s.Label)+len(s.NumLabel))
	}
	n := len(series)
	for name, values := range s.Label {
		if len(values) != 1 {
			return fmt.Errorf("a sample's label %s has the values %q", name, values)
		}
		isSeries, err := checkSampleLabel(name, values[0], series)
		if err != nil {
			return err
		}
		if isSeries {
			n++
		}
	}
	if n > maxSeriesLabels {
		return fmt.Errorf("a sample whose series has %d labels", n)
	}
	return nil
}

// checkSampleLabel tells whether the server would make the label one of the series.
func checkSampleLabel(name, value string, series map[string]string) (isSeries bool, err error) {
	switch name {
	case "span_id":
		if !spanID.MatchString(value) {
			err = fmt.Errorf("span_id %q", value)
		}
		return false, err
	case "trace_id":
		if !traceID.MatchString(value) {
			err = fmt.Errorf("trace_id %q", value)
		}
		return false, err
	}
	if _, both := series[name]; both {
		return true, fmt.Errorf("label %s is the series' and a sample's", name)
	}
	return true, checkLabel(name, value)
}
