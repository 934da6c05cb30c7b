package web

import (
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/wire"
	"github.com/edl-go/edl/tensor"
)

// steps is what is read of the steps of a job: the numbers that they have fetched.
type steps struct {
	next    uint64 // number of the next event
	trained uint64 // steps below this number were trained, as the last step that was read says
	all     bool   // the job has ended, and all was read
	names   []string
	series  map[string]*series
	judged  int           // series of evaluations
	parsed  tensor.Stream // memory
}

// take enters events that follow those before, or come after some that were forgotten.
func (s *steps) take(number uint64, events []*job.Event) {
	for i, e := range events {
		if at := number + uint64(i); at < s.next {
			continue
		}
		if step := e.GetStep(); step != nil {
			s.enter(step)
		}
		if v := e.GetEvaluated(); v != nil {
			s.enterEvaluated(v)
		}
	}
	s.next = max(s.next, number+uint64(len(events)))
}

func (s *steps) enter(step *job.Step) {
	s.trained = step.Step + 1
	for _, v := range step.Fetched {
		known := s.series[v.Name]
		if known == nil && len(s.names)-s.judged == maxSeries {
			continue
		}
		n, ok := wire.Scalar(&s.parsed, v)
		if !ok {
			continue
		}
		if known == nil {
			known = s.open(v.Name)
		}
		known.add(step.Step, n)
	}
}

// ofEvaluations is what the name of a value of evaluations ends with, to tell it from what steps fetch.
const ofEvaluations = " (eval)"

func (s *steps) enterEvaluated(e *job.Evaluated) {
	for _, v := range e.Values {
		name := v.Name + ofEvaluations
		known := s.series[name]
		if known == nil && s.judged == maxSeries {
			continue
		}
		if known == nil {
			s.judged++
			known = s.open(name)
		}
		known.add(e.Step, v.Value)
	}
}

// open begins a series.
func (s *steps) open(name string) *series {
	if s.series == nil {
		s.series = map[string]*series{}
	}
	known := &series{}
	s.series[name], s.names = known, append(s.names, name)
	return known
}

// main is the value by which people judge a job: the first that its steps fetch. It is nil where they fetch none.
func (s *steps) main() (name string, _ *series) {
	if len(s.names) == 0 {
		return "", nil
	}
	return s.names[0], s.series[s.names[0]]
}
