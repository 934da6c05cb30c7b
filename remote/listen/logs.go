package listen

import (
	"bytes"
	"sync"

	"github.com/edl-go/edl/internal/history"
	"github.com/edl-go/edl/proto/rpc"
)

// maxLogLines bounds what is kept of a job's output, and maxLine one line of it.
const (
	maxLogLines = 10_000
	maxLine     = 16 << 10
)

// lineWriter cuts what a role writes into lines of a log.
type lineWriter struct {
	log  *history.Log[*rpc.LogLine]
	role string
	mu   sync.Mutex
	rest []byte
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, b...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		skip := 1
		if i < 0 && len(w.rest) > maxLine {
			i, skip = maxLine, 0
		}
		if i < 0 {
			return len(b), nil
		}
		w.log.Add(&rpc.LogLine{Role: w.role, Line: string(w.rest[:i])})
		w.rest = w.rest[i+skip:]
	}
}
