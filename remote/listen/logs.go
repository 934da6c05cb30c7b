package listen

import (
	"bytes"

	"github.com/edl-go/edl/internal/history"
	"github.com/edl-go/edl/proto/rpc"
)

// maxLogLines bounds what is kept of a job's output.
const maxLogLines = 10_000

// lineWriter enters the lines that a launcher passes on, one a call, into a job's log.
type lineWriter struct {
	log  *history.Log[*rpc.LogLine]
	role string
}

func (w lineWriter) Write(line []byte) (int, error) {
	w.log.Add(&rpc.LogLine{Role: w.role, Line: string(bytes.TrimRight(line, "\n"))})
	return len(line), nil
}
