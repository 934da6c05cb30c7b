package executor

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/edl-go/edl/executor/internal/plan"
)

// A Profile records when each step of the plans of an executor ran, and on which worker. Make one with new, hand it to WithProfile, and write
// it out at any time. It costs some tens of nanoseconds for each step, and memory for up to 262,144 of them.
type Profile struct {
	trace plan.Trace
}

// WithProfile makes an executor record into p. Plans then know how long their steps take; see Prepared.Describe.
func WithProfile(p *Profile) Option { return func(l *Local) { l.profile = p } }

// WriteTrace writes what was recorded in the trace event format of Chrome (JSON), which about:tracing and ui.perfetto.dev show: a lane for each
// worker, and with each step its line of the program, its round and its arithmetic.
func (p *Profile) WriteTrace(w io.Writer) error {
	events, lost := p.trace.Events()
	file := traceFile{Unit: "ns", Other: map[string]any{"lost_events": lost}}
	lanes := 0
	for _, e := range events {
		lanes = max(lanes, e.Lane+1)
		took := float64(e.Took.Nanoseconds())
		file.Events = append(file.Events, traceEvent{Name: e.Name, Phase: "X", Process: 1, Thread: e.Lane,
			Start: float64(e.Start.Nanoseconds()) / 1000, Took: took / 1000,
			Args: map[string]any{"line": e.Line, "round": e.Round, "flops": e.Cost.Flops, "bytes": e.Cost.Bytes}})
	}
	for lane := range lanes {
		file.Events = append(file.Events, traceEvent{Name: "thread_name", Phase: "M", Process: 1, Thread: lane,
			Args: map[string]any{"name": fmt.Sprintf("worker %d", lane)}})
	}
	return json.NewEncoder(w).Encode(file)
}

// traceFile is a file of trace events. Times in it are microseconds; Unit only chooses how viewers print them.
type traceFile struct {
	Events []traceEvent   `json:"traceEvents"`
	Unit   string         `json:"displayTimeUnit"`
	Other  map[string]any `json:"otherData"`
}

type traceEvent struct {
	Name    string         `json:"name"`
	Phase   string         `json:"ph"` // X has a begin and a duration, M names a lane
	Process int            `json:"pid"`
	Thread  int            `json:"tid"`
	Start   float64        `json:"ts"`
	Took    float64        `json:"dur,omitempty"`
	Args    map[string]any `json:"args"`
}
