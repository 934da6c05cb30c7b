package main

import (
	"io"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/tensor"
)

// Events of "edl run --output json", one line each; docs/commands.md describes them.
type (
	fetchEvent struct {
		Event string `json:"event"`
		Name  string `json:"name"`
		jsonTensor
	}
	stepEvent struct {
		Event      string         `json:"event"`
		Pass       int            `json:"pass"`
		Step       uint64         `json:"step"`
		Loss       *jsonNumber    `json:"loss,omitempty"`
		Rows       int64          `json:"rows,omitempty"`       // given where Unreported is
		Unreported int64          `json:"unreported,omitempty"` // of Rows
		Fetch      map[string]any `json:"fetch"`
	}
	doneEvent struct {
		Event   string                `json:"event"`
		Passes  int                   `json:"passes"`
		Steps   uint64                `json:"steps"`
		Records int64                 `json:"records"`
		Seconds float64               `json:"seconds"`
		Mean    map[string]jsonNumber `json:"mean,omitempty"`
	}
)

// jsonReporter writes events as lines of JSON.
type jsonReporter struct {
	w     io.Writer
	watch watch
	some  stepsOnly
}

func newJSONReporter(w io.Writer, what watch) *jsonReporter {
	r := &jsonReporter{w: w, watch: what}
	r.some = stepsOnly{every: what.every, show: r.show}
	return r
}

func (r *jsonReporter) value(name string, t *tensor.Tensor) error {
	return writeJSON(r.w, fetchEvent{"fetch", name, newJSONTensor(t)})
}

func (r *jsonReporter) step(s executor.StepResult) error {
	return r.some.step(s)
}

func (r *jsonReporter) show(s executor.StepResult) error {
	e := stepEvent{Event: "step", Pass: s.Pass, Step: s.Step, Fetch: map[string]any{}}
	if s.Unreported > 0 {
		e.Rows, e.Unreported = s.Rows, s.Unreported
	}
	if loss, ok := r.watch.lossOf(s); ok {
		e.Loss = (*jsonNumber)(&loss)
	}
	for i, t := range s.Fetched {
		if t.Len() == 1 {
			e.Fetch[r.watch.names[i]] = jsonNumber(float(t, 0))
		} else {
			e.Fetch[r.watch.names[i]] = newJSONTensor(t)
		}
	}
	return writeJSON(r.w, e)
}

func (r *jsonReporter) done(s executor.Summary, m *means) error {
	if err := r.some.flush(); err != nil {
		return err
	}
	e := doneEvent{Event: "done", Passes: s.Passes, Steps: s.Steps, Records: s.Records, Seconds: seconds(s.Elapsed)}
	if r.watch.mean {
		e.Mean = map[string]jsonNumber{}
		for _, name := range r.watch.names {
			if mean, ok := m.of(name); ok {
				e.Mean[name] = jsonNumber(mean)
			}
		}
	}
	return writeJSON(r.w, e)
}

func (r *jsonReporter) close() {}
