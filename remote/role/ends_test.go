package role

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
	"github.com/edl-go/edl/program"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/tensor"
)

// The error of a role names the role and keeps what it says, and its kind.
func TestErrorsOfARole(t *testing.T) {
	nameless, named := fault.New(fault.NotFinite, "NaN"), fault.E(fault.NotFound, fault.At("data"), fault.Got("nothing"))
	late := fault.E(fault.Unavailable, fault.At("etcd"), fault.Got("no answer"))
	for _, c := range []struct {
		err  error
		kind fault.Kind
		says []string
	}{
		{nameless, fault.NotFinite, []string{"trainer-1", "NaN"}},
		{named, fault.NotFound, []string{"data", "nothing"}},
		{errors.New("odd"), fault.Internal, []string{"trainer-1", "odd"}},
		{errors.Join(nameless, late), fault.NotFinite, []string{"trainer-1", "NaN", "no answer"}},
		{errors.Join(named, late), fault.NotFound, []string{"data", "nothing", "no answer"}},
	} {
		err := inRole("trainer-1", c.err)
		if fault.KindOf(err) != c.kind {
			t.Errorf("%v: of kind %v, want %v", err, fault.KindOf(err), c.kind)
		}
		for _, want := range c.says {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: does not say %q", err, want)
			}
		}
	}
	if err := inRole("trainer-1", nil); err != nil {
		t.Error(err)
	}
}

// A role that ends because it was told to ends as drained, whichever role it is.
func TestDrained(t *testing.T) {
	told, cancel := context.WithCancelCause(t.Context())
	cancel(fault.New(fault.Drained, "terminated"))
	canceled := fault.E(fault.Canceled, fault.At("etcd"))
	for _, c := range []struct {
		ctx  context.Context
		err  error
		kind fault.Kind
	}{
		{told, canceled, fault.Drained},
		{told, context.Canceled, fault.Drained},
		{told, fault.New(fault.Fenced, "another"), fault.Fenced},
		{told, nil, fault.OK},
		{t.Context(), canceled, fault.Canceled},
	} {
		if err := drained(c.ctx, c.err); fault.KindOf(err) != c.kind {
			t.Errorf("%v: %v", c.err, err)
		}
	}
}

// ListenBy makes a role open its port by f.
func (o Options) ListenBy(f func(ctx context.Context, address string) (net.Listener, error)) Options {
	o.listen = f
	return o
}

// A coordinator whose job has ended stays until its events were read or it is told to end, but not for ever.
func TestLinger(t *testing.T) {
	deadlines := jobspec.DeadlinesOf(nil)
	late := deadlines.Linger / 2
	for name, c := range map[string]struct {
		heard, told bool // late
		takes       time.Duration
	}{"heard": {true, false, late}, "told to go": {false, true, late}, "nobody": {false, false, deadlines.Linger}} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			heard := make(chan struct{})
			time.AfterFunc(late, func() {
				if c.heard {
					close(heard)
				}
				if c.told {
					cancel()
				}
			})
			began := time.Now()
			(&runner{deadlines: deadlines, log: slog.New(slog.DiscardHandler)}).linger(ctx, heard)
			if took := time.Since(began); took != c.takes {
				t.Errorf("%s: gone after %v, want %v", name, took, c.takes)
			}
		})
	}
}

// A taker takes reports of waits alone.
type taker func([]*job.Wait)

func (t taker) Waits(list []*job.Wait) { t(list) }
func (taker) Rounds(*job.RoundTimes)   {}
func (taker) Trace(*job.Trace)         {}

// A role reports and logs what it waits for longer than a moment: once for each of those who can end the wait, and again when that changes.
func TestLongWaitsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var reports []string
		r := &runner{deadlines: jobspec.DeadlinesOf(nil), log: slog.New(slog.NewTextHandler(&log, nil))}
		stop := r.report(taker(func(list []*job.Wait) {
			text := ""
			for _, w := range list {
				text += w.What + " of " + w.By[0] + ";"
			}
			reports = append(reports, text)
		}))
		wait := func(what string, d time.Duration, by ...string) {
			entry := r.waits.Begin(waits.Wait{What: what, By: by})
			entry.Update(func(w *waits.Wait) { w.LastError = "nobody is there" })
			<-time.After(d)
			entry.End()
		}
		wait("a task", 2*time.Second, "coordinator")
		<-time.After(2 * time.Second)
		var group sync.WaitGroup
		for i, by := range []string{"pserver 0", "pserver 0", "pserver 1"} {
			group.Go(func() { wait(fmt.Sprintf("w%d of round 7", i), 35500*time.Millisecond, by) })
			synctest.Wait()
		}
		group.Wait()
		<-time.After(2 * time.Second)
		stop()
		if want := []string{"w0 of round 7 of pserver 0;w2 of round 7 of pserver 1;", ""}; !slices.Equal(reports, want) {
			t.Errorf("reported %q, want %q", reports, want)
		}
		line := regexp.MustCompile(`still waits" for="w0 of round 7" of="pserver 0" since=\d+s "last error"="nobody is there"`)
		if n := len(line.FindAllString(log.String(), -1)); n != 2 || strings.Contains(log.String(), "a task") || strings.Contains(log.String(), "w1") {
			t.Errorf("%d lines of the first wait in the log\n%s", n, log.String())
		}
	})
}

// A value that all trainers receive from a server is reported as it is: a mean of equal numbers may be another number.
func TestReceivedValuesAreNotAveraged(t *testing.T) {
	const rate = float32(0.04613724)
	p := program.New()
	for _, name := range []string{"rate", "loss"} {
		p.Global().EnsureVar(program.Var{Name: name, Kind: program.LoDTensor, DType: tensor.Float32, Dims: []int64{1}})
	}
	p.Global().Append(&program.Op{Type: "recv", Outputs: map[string][]string{"Out": {"rate"}}})
	var reports []*rpc.TrainerStep
	for _, rows := range []int64{2, 3, 3} {
		value := func(name string, v float32) *job.Value {
			one, err := tensor.FromSlice([]float32{v}, 1)
			if err != nil {
				t.Fatal(err)
			}
			return &job.Value{Name: name, Stream: tensor.AppendStream(nil, one)}
		}
		reports = append(reports, &rpc.TrainerStep{Rows: rows, GlobalRows: 8, Fetched: []*job.Value{value("rate", rate), value("loss", float32(rows))}})
	}
	merged, err := mergeReports(p, ops.NewFetches(p, ops.MergeMean), received(p), reports)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float32{rate, 22. / 8} {
		got, _, err := tensor.DecodeStream(merged[i].Stream, tensor.Limits{})
		if err != nil || got.Float32s()[0] != want {
			t.Errorf("%s is %v, %v, want %v", merged[i].Name, got.Float32s()[0], err, want)
		}
	}
}
