package listen

import (
	"bytes"

	"github.com/edl-go/edl/internal/history"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/wire"
)

// maxLogLines bounds what is kept of a job's output.
const maxLogLines = 10_000

// lineWriter enters the lines that a launcher passes on, one a call, into a job's log, but for what the role tells of its waits.
type lineWriter struct {
	log   *history.Log[*rpc.LogLine]
	role  string
	waits func([]*job.Wait)
}

func (w lineWriter) Write(line []byte) (int, error) {
	if waits, ok := wire.WaitsOf(string(line)); ok {
		w.waits(waits)
		return len(line), nil
	}
	w.log.Add(&rpc.LogLine{Role: w.role, Line: string(bytes.TrimRight(line, "\n"))})
	return len(line), nil
}
