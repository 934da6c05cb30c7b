package timing

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/chrometrace"
	"github.com/edl-go/edl/proto/job"
)

// A Part is the trace of one role.
type Part struct {
	Role    string        // "trainer 1"
	Node    string        // that it ran on; empty: the machine of the listener
	Trace   []byte        // an encoded job.Trace
	Ahead   time.Duration // of the clock of its machine before that of the listener
	Missing string        // why there is no trace; empty: there is one
}

// ErrNothing says that no role has recorded anything.
var ErrNothing = errors.New("no role has recorded a step")

// Write writes the parts of a job as one trace in Chrome's format: a process for each role, with a lane for the phases of its rounds and a lane for each
// worker. All times are by the clock of the listener, from the first event on. It returns which parts are not in the file, and why, one line each.
func Write(w io.Writer, id string, parts []Part) (missing []string, err error) {
	file := &chrometrace.File{}
	file.Note("job", id)
	traces := make([]*job.Trace, len(parts))
	var first time.Duration
	some := false
	for i, p := range parts {
		why := p.Missing
		if why == "" {
			if traces[i], err = decode(p.Trace); err != nil {
				why = err.Error()
			}
		}
		if why != "" {
			traces[i] = nil
			missing = append(missing, p.Role+": "+why)
			continue
		}
		if at, ok := earliest(traces[i]); ok && (!some || at+base(p, traces[i]) < first) {
			first, some = at+base(p, traces[i]), true
		}
	}
	if !some {
		return missing, fault.E(fault.NotFound, fault.At("the profile of job "+id), fault.Cause(ErrNothing))
	}
	lost := uint64(0)
	for i, p := range parts {
		if t := traces[i]; t != nil {
			add(file, i+1, p, t, base(p, t)-first)
			lost += t.Lost
		}
	}
	file.Note("lost_events", lost)
	file.Note("missing", append([]string{}, missing...))
	return missing, file.Write(w)
}

// base is when the clock of a trace was 0, by the listener's clock.
func base(p Part, t *job.Trace) time.Duration { return time.Duration(t.Clock) - p.Ahead }

// earliest is the start of the first event of a trace; false: it has none.
func earliest(t *job.Trace) (time.Duration, bool) {
	starts := slices.Clone(t.RunStart)
	for _, r := range t.Rounds {
		starts = append(starts, r.Start)
	}
	if len(starts) == 0 {
		return 0, false
	}
	return time.Duration(slices.Min(starts)), true
}

// add adds the events of one role, moved by an offset.
func add(file *chrometrace.File, process int, p Part, t *job.Trace, offset time.Duration) {
	name := p.Role
	if p.Node != "" {
		name += " on node " + p.Node
	}
	file.NameProcess(process, name)
	file.NameLane(process, 0, "rounds")
	for _, r := range t.Rounds {
		at := offset + time.Duration(r.Start)
		for i, took := range r.Took {
			args := map[string]any{"round": r.Round}
			if r.Last >= 0 {
				args["last"] = fmt.Sprintf("trainer %d", r.Last)
			}
			if took > 0 {
				file.Add(chrometrace.Span{Name: t.Phases[i], Process: process, Start: at, Took: time.Duration(took), Args: args})
			}
			at += time.Duration(took)
		}
	}
	workers := uint32(0)
	for i, k := range t.RunKernel {
		workers = max(workers, t.RunWorker[i]+1)
		of := t.Kernels[k]
		file.Add(chrometrace.Span{Name: of.Name, Process: process, Lane: int(t.RunWorker[i]) + 1, Start: offset + time.Duration(t.RunStart[i]),
			Took: time.Duration(t.RunTook[i]), Args: map[string]any{"line": of.Line, "round": t.RunRound[i], "flops": of.Flops, "bytes": of.Bytes}})
	}
	for lane := range int(workers) {
		file.NameLane(process, lane+1, fmt.Sprintf("worker %d", lane))
	}
}
