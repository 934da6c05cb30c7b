package main

import (
	"io"
	"os"
	"sync/atomic"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/edl-go/edl/executor"
)

// barReporter shows a progress bar with the live loss on a terminal, and writes values and the summary like textReporter.
type barReporter struct {
	*textReporter
	progress *mpb.Progress
	bar      *mpb.Bar
	line     atomic.Pointer[string]
}

// newBarReporter draws on screen. total is the number of records of the whole run, 0 when it is not known.
func newBarReporter(screen, out io.Writer, what watch, total int64) *barReporter {
	r := &barReporter{textReporter: newTextReporter(out, what)}
	r.line.Store(new(string))
	r.progress = mpb.New(mpb.WithOutput(screen), mpb.WithWidth(40))
	r.bar = r.progress.AddBar(total,
		mpb.PrependDecorators(decor.CountersNoUnit("%d / %d records")),
		mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO), decor.Any(func(decor.Statistics) string { return "  " + *r.line.Load() })))
	return r
}

func (r *barReporter) step(s executor.StepResult) error {
	text := r.watch.line(s)
	r.line.Store(&text)
	r.bar.IncrInt64(s.Rows)
	return nil
}

func (r *barReporter) done(s executor.Summary, m *means) error {
	r.bar.SetTotal(-1, true)
	r.progress.Wait()
	return r.textReporter.done(s, m)
}

// close takes an unfinished bar from the screen.
func (r *barReporter) close() {
	r.bar.Abort(false)
	r.progress.Wait()
}

// isTerminal reports whether people watch what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && cwriter.IsTerminal(int(f.Fd()))
}
