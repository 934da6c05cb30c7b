package timing

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

type event struct {
	Name string
	Ph   string
	Pid  int
	Tid  int
	Ts   float64
	Dur  float64
	Args map[string]any
}

func written(t *testing.T, parts ...Part) (events []event, missing []string) {
	t.Helper()
	var out bytes.Buffer
	missing, err := Write(&out, "digits", parts)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		TraceEvents []event
		OtherData   map[string]any
	}
	if err := json.Unmarshal(out.Bytes(), &file); err != nil {
		t.Fatal(err)
	}
	if listed, ok := file.OtherData["missing"].([]any); !ok || len(listed) != len(missing) {
		t.Errorf("the file says that %v is missing, want %v", file.OtherData["missing"], missing)
	}
	return file.TraceEvents, missing
}

func encode(t *testing.T, m *job.Trace) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Roles whose clocks differ come out on one clock, each a process with its phases and kernels.
func TestTracesAreJoinedOnOneClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(PServer, 0, 10)
		tr := New(Trainer, 0, 10)
		began := time.Now()
		after(50 * ms)
		tr.Begin(3)
		after(5 * ms)
		tr.Enter(Compute)
		kernel := executor.KernelRun{Name: "mul", Line: "net.go:7", Worker: 0, Round: 3, Start: time.Now(), Took: 4 * ms, Flops: 5}
		other := kernel
		other.Start = other.Start.Add(ms) // at the same time
		after(10 * ms)
		tr.Enter(Send)
		serve(p, 3, 0, 2, 3, 4, 1)
		p.End()
		tr.Enter(Other)
		tr.End()
		trace := tr.Trace([]executor.KernelRun{other, kernel, kernel}, 2, 2)
		if trace.Lost != 3 {
			t.Errorf("%d runs are lost, want 3", trace.Lost)
		}
		const ahead = time.Hour // the clock of the trainer's machine
		trace.Clock += int64(ahead)
		events, missing := written(t, Part{Role: "pserver 0", Trace: encode(t, p.Trace(nil, 0, 10))},
			Part{Role: "trainer 0", Node: "b", Trace: encode(t, trace), Ahead: ahead}, Part{Role: "trainer 1", Missing: "killed"})
		if want := []string{"trainer 1: killed"}; !slices.Equal(missing, want) {
			t.Errorf("missing %q, want %q", missing, want)
		}
		names := map[int]string{}
		type span struct {
			pid, tid int
			name     string
			ts, dur  float64
		}
		var spans []span
		for _, e := range events {
			if e.Ph == "X" {
				spans = append(spans, span{e.Pid, e.Tid, e.Name, e.Ts, e.Dur})
				if e.Args["round"] != 3.0 {
					t.Errorf("event %v is not of round 3", e)
				}
			} else if e.Name == "process_name" {
				names[e.Pid] = e.Args["name"].(string)
			}
		}
		if names[1] != "pserver 0" || names[2] != "trainer 0 on node b" || len(names) != 2 {
			t.Errorf("processes %v", names)
		}
		// The first event is that of the trainer, 50 ms after the beginning.
		want := []span{{1, 0, "receive", 15000, 2000}, {1, 0, "merge", 17000, 3000}, {1, 0, "apply", 20000, 4000}, {1, 0, "push", 24000, 1000},
			{2, 0, "read", 0, 5000}, {2, 0, "compute", 5000, 10000}, {2, 0, "send", 15000, 10000},
			{2, 1, "mul", 5000, 4000}, {2, 2, "mul", 6000, 4000}}
		if !slices.Equal(spans, want) {
			t.Errorf("spans since %v:\n%v, want\n%v", began, spans, want)
		}
	})
}

// A trace that its role cannot have made is left out, and named.
func TestTraceThatDoesNotFitIsLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Trainer, 0, 10)
		train(r, 0, 1, 1, 1, 1, 1, 1)
		r.End()
		good := r.Trace([]executor.KernelRun{{Name: "mul", Start: time.Now()}}, 0, 10)
		for name, spoil := range map[string]func(*job.Trace){
			"a kernel that is not there": func(m *job.Trace) { m.RunKernel[0] = 9 },
			"a short column":             func(m *job.Trace) { m.RunTook = nil },
			"a negative time":            func(m *job.Trace) { m.RunTook[0] = -1 },
			"a phase too few":            func(m *job.Trace) { m.Rounds[0].Took = m.Rounds[0].Took[1:] },
			"a phase back in time":       func(m *job.Trace) { m.Rounds[0].Took[0] = -1 },
			"many phases":                func(m *job.Trace) { m.Phases = make([]string, 99) },
			"many lanes":                 func(m *job.Trace) { m.RunWorker[0] = 1 << 30 },
		} {
			bad := proto.Clone(good).(*job.Trace)
			spoil(bad)
			_, missing := written(t, Part{Role: "trainer 0", Trace: encode(t, good)}, Part{Role: "trainer 1", Trace: encode(t, bad)})
			if len(missing) != 1 || !strings.HasPrefix(missing[0], "trainer 1: ") || !strings.Contains(missing[0], "do not fit together") {
				t.Errorf("%s: missing %q", name, missing)
			}
		}
		_, missing := written(t, Part{Role: "trainer 0", Trace: encode(t, good)}, Part{Role: "trainer 1", Trace: []byte("?")},
			Part{Role: "trainer 2", Trace: make([]byte, MaxTrace+1)})
		if len(missing) != 2 {
			t.Errorf("missing %q", missing)
		}
	})
}

func TestNothingWasRecorded(t *testing.T) {
	var out bytes.Buffer
	missing, err := Write(&out, "digits", []Part{{Role: "trainer 0", Missing: "the job profiles no steps"}})
	if !errors.Is(err, ErrNothing) || !errors.Is(err, fault.NotFound) || len(missing) != 1 || out.Len() > 0 {
		t.Errorf("missing %q, error %v, %d bytes", missing, err, out.Len())
	}
}

// All roles of a job together record no more than fits into memory.
func TestBoundsOfAJob(t *testing.T) {
	for roles := 1; roles < 1<<13; roles *= 2 {
		if n := roles * RoundsOf(roles); n > maxRuns || RoundsOf(roles) > MaxSteps {
			t.Errorf("%d roles record %d rounds", roles, n)
		}
		if n := RunsOf(roles); n < leastRuns || n*roles > max(maxRuns, leastRuns*roles) {
			t.Errorf("%d roles record %d runs each", roles, n)
		}
	}
}
