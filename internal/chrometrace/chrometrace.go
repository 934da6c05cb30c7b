// Package chrometrace writes the trace event format of Chrome (JSON), which about:tracing and ui.perfetto.dev show. Local runs and runs on clusters
// write their profiles with it.
package chrometrace

import (
	"encoding/json"
	"io"
	"time"
)

// A File is the events of a trace. Times are counted from any moment that all its events share.
type File struct {
	events []event
	other  map[string]any
}

// An event has the fields of the format. Times are microseconds.
type event struct {
	Name    string         `json:"name"`
	Phase   string         `json:"ph"` // X has a begin and a duration, M names a process or a lane
	Process int            `json:"pid"`
	Thread  int            `json:"tid"`
	Start   float64        `json:"ts"`
	Took    float64        `json:"dur,omitempty"`
	Args    map[string]any `json:"args,omitempty"`
}

// A Span is something that began and took some time.
type Span struct {
	Name    string
	Process int
	Lane    int // of the process
	Start   time.Duration
	Took    time.Duration
	Args    map[string]any // shown with the span; may be nil
}

// Add adds a span.
func (f *File) Add(s Span) {
	f.events = append(f.events, event{Name: s.Name, Phase: "X", Process: s.Process, Thread: s.Lane, Start: micro(s.Start), Took: micro(s.Took),
		Args: s.Args})
}

// NameProcess names a process. Viewers list processes in the order of their numbers.
func (f *File) NameProcess(process int, name string) {
	f.meta("process_name", process, 0, map[string]any{"name": name})
	f.meta("process_sort_index", process, 0, map[string]any{"sort_index": process})
}

// NameLane names a lane of a process.
func (f *File) NameLane(process, lane int, name string) {
	f.meta("thread_name", process, lane, map[string]any{"name": name})
}

// Note adds a fact about the whole trace.
func (f *File) Note(name string, value any) {
	if f.other == nil {
		f.other = map[string]any{}
	}
	f.other[name] = value
}

// Write writes the file.
func (f *File) Write(w io.Writer) error {
	return json.NewEncoder(w).Encode(struct {
		Events []event        `json:"traceEvents"`
		Unit   string         `json:"displayTimeUnit"` // only chooses how viewers print times
		Other  map[string]any `json:"otherData"`
	}{f.events, "ns", f.other})
}

func (f *File) meta(name string, process, lane int, args map[string]any) {
	f.events = append(f.events, event{Name: name, Phase: "M", Process: process, Thread: lane, Args: args})
}

func micro(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }
