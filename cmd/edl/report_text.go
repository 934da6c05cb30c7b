package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/tensor"
)

// textReporter writes plain lines for people.
type textReporter struct {
	w     io.Writer
	watch watch
	some  stepsOnly
}

func newTextReporter(w io.Writer, what watch) *textReporter {
	r := &textReporter{w: w, watch: what}
	r.some = stepsOnly{every: what.every, show: r.show}
	return r
}

func (r *textReporter) value(name string, t *tensor.Tensor) error {
	_, err := fmt.Fprintf(r.w, "%s %v\n%s\n", name, t, textTensor(t))
	return err
}

func (r *textReporter) step(s executor.StepResult) error {
	return r.some.step(s)
}

func (r *textReporter) show(s executor.StepResult) error {
	_, err := fmt.Fprintf(r.w, "pass %d  step %d  %s\n", s.Pass, s.Step, r.watch.line(s))
	return err
}

func (r *textReporter) done(s executor.Summary, m *means) error {
	if err := r.some.flush(); err != nil {
		return err
	}
	return writeSummary(r.w, s, r.watch, m)
}

func (r *textReporter) close() {}

// line returns the values of a step: "loss 0.31" first, then the others under their names.
func (w watch) line(s executor.StepResult) string {
	var parts []string
	if loss, ok := w.lossOf(s); ok {
		parts = append(parts, fmt.Sprintf("loss %.6g", loss))
	}
	for i, t := range s.Fetched {
		switch {
		case w.names[i] == w.loss && t.Len() == 1:
		case t.Len() == 1:
			parts = append(parts, fmt.Sprintf("%s %.6g", w.names[i], float(t, 0)))
		default:
			parts = append(parts, fmt.Sprintf("%s %v", w.names[i], t))
		}
	}
	if s.Unreported > 0 {
		parts = append(parts, fmt.Sprintf("(of %d of %d rows)", s.Rows-s.Unreported, s.Rows))
	}
	return strings.Join(parts, "  ")
}

// writeSummary says what a whole run did.
func writeSummary(w io.Writer, s executor.Summary, what watch, m *means) error {
	if _, err := fmt.Fprintf(w, "done  passes %d  steps %d  records %d  seconds %.2f  records/s %.0f\n", s.Passes, s.Steps, s.Records,
		seconds(s.Elapsed), recordRate(s)); err != nil {
		return err
	}
	if !what.mean {
		return nil
	}
	for _, name := range what.names {
		if mean, ok := m.of(name); ok {
			if _, err := fmt.Fprintf(w, "mean  %s %.6g\n", name, mean); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordRate is the records that a run trained per second.
func recordRate(s executor.Summary) float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Records) / s.Elapsed.Seconds()
}
