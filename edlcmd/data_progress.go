package edlcmd

import (
	"fmt"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// showProgress shows on a terminal how far tables have been read. stop takes the line away. Without a terminal there is none.
func (t openedTables) showProgress(c *console) (stop func()) {
	screen := terminalOf(c.err)
	if screen == nil {
		return func() {}
	}
	began := time.Now()
	progress := mpb.New(mpb.WithOutput(screen))
	bar := progress.New(0, mpb.NopStyle(), mpb.PrependDecorators(decor.Any(func(decor.Statistics) string { return t.far().line(time.Since(began)) })))
	return func() {
		bar.Abort(true)
		progress.Wait()
	}
}

// A tableProgress is how far tables have been read.
type tableProgress struct {
	file, files int // the one that is read, from 1
	read, size  int64
	rows        int64
}

func (t openedTables) far() tableProgress {
	p := tableProgress{files: len(t), file: 1}
	for i, table := range t {
		read, size, rows := table.Progress()
		if rows > 0 {
			p.file = i + 1
		}
		p.read, p.size, p.rows = p.read+read, p.size+size, p.rows+rows
	}
	return p
}

// line is the progress for people: files, rows, rows a second, and the time that is left if the rest is read as fast.
func (p tableProgress) line(elapsed time.Duration) string {
	text := fmt.Sprintf("file %d of %d  %d rows", p.file, p.files, p.rows)
	if elapsed <= 0 || p.read <= 0 || p.size <= 0 {
		return text
	}
	share := min(float64(p.read)/float64(p.size), 1)
	left := time.Duration(float64(elapsed) * (1 - share) / share).Round(time.Second)
	return fmt.Sprintf("%s  %.0f rows/s  %.0f %%  %v left", text, float64(p.rows)/elapsed.Seconds(), 100*share, left)
}
