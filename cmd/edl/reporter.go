package main

import (
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/tensor"
)

// A reporter shows what a run yields.
type reporter interface {
	// value is called for each variable that a single run fetched.
	value(name string, t *tensor.Tensor) error
	// step is called after a step of training.
	step(s executor.StepResult) error
	// done is called when the last step is over, with the means of what was fetched.
	done(s executor.Summary, m *means) error
	// close ends what the reporter started, also after an error.
	close()
}

// A watch says which of the fetched variables are the loss and what they are called.
type watch struct {
	names []string // of StepResult.Fetched
	loss  string   // one of names, or empty
	every uint64   // report each step whose number is a multiple
	mean  bool     // nothing is trained: the mean over all rows is what counts
}

// lossOf returns the loss of a step, when it is one number.
func (w watch) lossOf(s executor.StepResult) (float64, bool) {
	for i, t := range s.Fetched {
		if w.names[i] == w.loss && w.loss != "" && t.Len() == 1 {
			return float(t, 0), true
		}
	}
	return 0, false
}

// means averages one-element values over the rows of a run.
type means struct {
	rows float64
	sums map[string]float64
}

func (m *means) add(names []string, s executor.StepResult) {
	if m.sums == nil {
		m.sums = map[string]float64{}
	}
	rows := float64(s.Rows - s.Unreported)
	m.rows += rows
	for i, t := range s.Fetched {
		if t.Len() == 1 {
			m.sums[names[i]] += float(t, 0) * rows
		}
	}
}

func (m *means) of(name string) (float64, bool) {
	sum, ok := m.sums[name]
	return sum / m.rows, ok && m.rows > 0
}

// stepsOnly passes on the steps that are to be reported: every n-th, and the last one.
type stepsOnly struct {
	every uint64
	show  func(executor.StepResult) error
	held  *executor.StepResult // the last step, while it was not shown
}

func (o *stepsOnly) step(s executor.StepResult) error {
	if s.Step%o.every == 0 {
		o.held = nil
		return o.show(s)
	}
	if o.held == nil {
		o.held = &executor.StepResult{}
	}
	fetched := o.held.Fetched[:0]
	for _, t := range s.Fetched {
		fetched = append(fetched, t.Clone())
	}
	*o.held = s
	o.held.Fetched = fetched
	return nil
}

// flush shows the last step.
func (o *stepsOnly) flush() error {
	if o.held == nil {
		return nil
	}
	return o.show(*o.held)
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
