package edlcmd

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/metrics"
	"github.com/edl-go/edl/tensor"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// A reporter shows what a run yields.
type reporter interface {
	// value is called for each variable that a single run fetched.
	value(name string, t *tensor.Tensor) error
	// step is called after a step of training.
	step(s executor.StepResult) error
	// evaluated is called after each evaluation of a run that trains.
	evaluated(e evaluation) error
	// done is called when the last step is over, with the means of what was fetched.
	done(s executor.Summary, m *means, o outcome) error
	// close ends what the reporter started, also after an error.
	close()
}

// An outcome is what a run is worth, as far as it was asked for.
type outcome struct {
	metrics []metrics.Result // of an evaluation, or the last one of a run that trains
	best    *evaluation      // by --keep-best; nil: none
	stopped string           // the rule that has ended training
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
	if s.Step%o.every == 0 || s.Resumed {
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
	_, err := fmt.Fprintf(r.w, "%s %s%s\n%s\n", name, t, textLoD(t.LoD()), textTensor(t))
	return err
}

func (r *textReporter) step(s executor.StepResult) error {
	return r.some.step(s)
}

func (r *textReporter) show(s executor.StepResult) error {
	line := fmt.Sprintf("pass %d  step %d  %s", s.Pass, s.Step, r.watch.line(s))
	_, err := fmt.Fprintln(r.w, strings.TrimRight(line, " "))
	return err
}

func (r *textReporter) evaluated(e evaluation) error {
	_, err := fmt.Fprintln(r.w, e.line())
	return err
}

func (r *textReporter) done(s executor.Summary, m *means, o outcome) error {
	if err := r.some.flush(); err != nil {
		return err
	}
	if err := writeSummary(r.w, s, r.watch, m); err != nil {
		return err
	}
	for _, result := range o.metrics {
		if _, err := fmt.Fprintf(r.w, "metric  %s\n", textResult(result)); err != nil {
			return err
		}
	}
	if o.best != nil {
		if _, err := fmt.Fprintf(r.w, "best  pass %d  step %d  %s\n", o.best.pass, o.best.step, textResults(o.best.results)); err != nil {
			return err
		}
	}
	if o.stopped != "" {
		if _, err := fmt.Fprintln(r.w, "stopped ", o.stopped); err != nil {
			return err
		}
	}
	return nil
}

func textResults(results []metrics.Result) string {
	var parts []string
	for _, r := range results {
		parts = append(parts, textResult(r))
	}
	return strings.Join(parts, "  ")
}

// textResult is a metric as text: auc 0.912345, with the bound of its error where it has one.
func textResult(r metrics.Result) string {
	text := fmt.Sprintf("%s %.6g", r.Name, r.Value)
	if r.Bound > 0 {
		text += fmt.Sprintf(" (within %.1g)", r.Bound)
	}
	return text
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
			parts = append(parts, fmt.Sprintf("%s %s", w.names[i], scalarOf(t, 0)))
		default:
			parts = append(parts, fmt.Sprintf("%s %s", w.names[i], t))
		}
	}
	if s.Unreported > 0 {
		parts = append(parts, fmt.Sprintf("(of %d of %d rows)", s.Rows-s.Unreported, s.Rows))
	}
	switch {
	case s.Resumed:
		parts = append(parts, fmt.Sprintf("(goes on from here, attempt %d)", s.Attempt+1))
	case s.Repeated:
		parts = append(parts, fmt.Sprintf("(again, attempt %d)", s.Attempt+1))
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

// barReporter shows a progress bar with pass, step, speed and live values on a terminal, and writes evaluations and the summary like textReporter.
type barReporter struct {
	*textReporter
	progress *mpb.Progress
	bar      *mpb.Bar
	of       extent
	place    atomic.Pointer[string] // pass and step
	line     atomic.Pointer[string]
}

// newBarReporter draws on screen. of is how much the run reads; where that is not known, the bar only counts.
func newBarReporter(screen, out io.Writer, what watch, of extent) *barReporter {
	r := &barReporter{textReporter: newTextReporter(out, what), of: of}
	r.place.Store(new(string))
	r.line.Store(new(string))
	r.progress = mpb.New(mpb.WithOutput(screen), mpb.WithWidth(40))
	text := func(from *atomic.Pointer[string]) decor.Decorator {
		return decor.Any(func(decor.Statistics) string { return *from.Load() })
	}
	count := decor.CountersNoUnit("%d / %d records")
	left := []decor.Decorator{decor.AverageETA(decor.ET_STYLE_GO), decor.Name(" left  ")}
	if of.records == 0 {
		count, left = decor.CurrentNoUnit("%d records"), nil
	}
	r.bar = r.progress.AddBar(of.records, mpb.PrependDecorators(text(&r.place), count),
		mpb.AppendDecorators(append(left, decor.AverageSpeed(0, "%.0f records/s"), text(&r.line))...))
	return r
}

func (r *barReporter) step(s executor.StepResult) error {
	place := fmt.Sprintf("pass %d  step %d  ", s.Pass, s.Step)
	if r.of.passes > 0 {
		place = fmt.Sprintf("pass %d (to %d)  step %d  ", s.Pass, r.of.passes-1, s.Step)
	}
	text := "  " + printedText(r.watch.line(s))
	r.place.Store(&place)
	r.line.Store(&text)
	r.bar.IncrInt64(s.Rows)
	return nil
}

// evaluated writes above the bar.
func (r *barReporter) evaluated(e evaluation) error {
	_, err := fmt.Fprintln(printedWriter{r.progress}, e.line())
	return err
}

func (r *barReporter) done(s executor.Summary, m *means, o outcome) error {
	r.bar.SetTotal(-1, true)
	r.progress.Wait()
	return r.textReporter.done(s, m, o)
}

// close takes an unfinished bar from the screen.
func (r *barReporter) close() {
	r.bar.Abort(false)
	r.progress.Wait()
}

// terminalOf returns the terminal that people watch behind a writer of the console, nil if there is none. What moves the cursor is written to it directly, and nothing
// of a program.
func terminalOf(w io.Writer) *os.File {
	if printed, ok := w.(printedWriter); ok {
		w = printed.to
	}
	if f, ok := w.(*os.File); ok && cwriter.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}
