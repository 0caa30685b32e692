// SPDX-License-Identifier: BSD-2-Clause

// What the accepted profiles add up to.

package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Values by sample type. Of in use the last profile's count, of all others the sum.
type values map[string]int64

type report struct {
	Requests int                `json:"requests"`
	Profiles int                `json:"profiles"`
	Repeats  int                `json:"repeats"` // of profiles that came before, and were not added again
	Refused  []string           `json:"refused"`
	Headers  http.Header        `json:"headers"` // of the last request
	Series   map[string]*series `json:"series"`  // by the labels as JSON would order them
}

type series struct {
	Labels     map[string]string `json:"labels"`
	Profiles   int               `json:"profiles"`
	MaxSamples int               `json:"max_samples"`
	FirstNS    int64             `json:"first_ns"`
	LastNS     int64             `json:"last_ns"`
	DurationNS int64             `json:"duration_ns"`
	Totals     values            `json:"totals"`
	Spans      map[string]values `json:"spans"` // by span_id
	Stacks     map[string]*stack `json:"stacks"`
}

type stack struct {
	Frames []string          `json:"frames"` // outermost first
	Labels map[string]string `json:"labels"`
	Values values            `json:"values"`
}

func newReport() *report {
	return &report{Refused: []string{}, Series: map[string]*series{}}
}

func (r *report) noteRequest(headers http.Header) {
	r.Requests++
	r.Headers = headers.Clone()
}

func (r *report) add(p accepted) {
	if p.repeat {
		r.Repeats++
		return
	}
	r.Profiles++
	key := fmt.Sprint(p.labels)
	s := r.Series[key]
	if s == nil {
		s = &series{Labels: p.labels, FirstNS: p.TimeNanos, LastNS: p.TimeNanos, Totals: values{},
			Spans: map[string]values{}, Stacks: map[string]*stack{}}
		r.Series[key] = s
	}
	s.add(p.Profile)
}

func isInUse(name string) bool {
	return strings.HasPrefix(name, "inuse_")
}

func (v values) forgetInUse() {
	maps.DeleteFunc(v, func(name string, _ int64) bool { return isInUse(name) })
}

func (s *series) forgetInUse() {
	s.Totals.forgetInUse()
	for _, v := range s.Spans {
		v.forgetInUse()
	}
	for _, stack := range s.Stacks {
		stack.Values.forgetInUse()
	}
}

func (s *series) add(p *profile.Profile) {
	isLast := p.TimeNanos >= s.LastNS
	if p.TimeNanos > s.LastNS {
		s.forgetInUse()
	}
	s.Profiles++
	s.MaxSamples = max(s.MaxSamples, len(p.Sample))
	s.FirstNS, s.LastNS = min(s.FirstNS, p.TimeNanos), max(s.LastNS, p.TimeNanos)
	s.DurationNS += p.DurationNanos
	for _, sample := range p.Sample {
		where := []values{s.Totals, s.stackOf(sample).Values}
		if id := sample.Label["span_id"]; len(id) > 0 {
			if s.Spans[id[0]] == nil {
				s.Spans[id[0]] = values{}
			}
			where = append(where, s.Spans[id[0]])
		}
		for i, t := range p.SampleType {
			for _, v := range where {
				if isLast || !isInUse(t.Type) {
					v[t.Type] += sample.Value[i]
				}
			}
		}
	}
}

func (s *series) stackOf(sample *profile.Sample) *stack {
	found := &stack{Labels: map[string]string{}, Values: values{}}
	for _, location := range sample.Location {
		for _, line := range location.Line {
			found.Frames = append(found.Frames, line.Function.Name)
		}
	}
	slices.Reverse(found.Frames)
	for name, v := range sample.Label {
		found.Labels[name] = v[0]
	}
	key := fmt.Sprint(found.Frames, found.Labels)
	if s.Stacks[key] == nil {
		s.Stacks[key] = found
	}
	return s.Stacks[key]
}
