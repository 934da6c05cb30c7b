package launch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
	"github.com/edl-go/edl/remote/waits"
	"github.com/edl-go/edl/remote/wire"
)

func TestChildSpecUntilParentIsLost(t *testing.T) {
	spec := &job.RoleSpec{Job: "digits", Role: job.Role_PSERVER, Index: 2, Program: []byte("program")}
	message, err := encodeSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	r, w := io.Pipe()
	go func() { _, _ = w.Write(message) }()
	got, _, lost, err := ChildSpec(r)
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, spec) {
		t.Fatalf("got %v, want %v", got, spec)
	}
	select {
	case <-lost:
		t.Fatal("the parent counts as lost while the pipe is open")
	default:
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	<-lost
}

func TestChildSpecRefuses(t *testing.T) {
	message, err := encodeSpec(&job.RoleSpec{Job: "digits"})
	if err != nil {
		t.Fatal(err)
	}
	for n := range message {
		if _, _, _, err := ChildSpec(bytes.NewReader(message[:n])); !errors.Is(err, fault.Corrupt) {
			t.Errorf("cut at %d of %d: %v", n, len(message), err)
		}
	}
	huge := binary.LittleEndian.AppendUint32(nil, MaxSpec+1)
	if _, _, _, err := ChildSpec(bytes.NewReader(huge)); !errors.Is(err, fault.TooLarge) {
		t.Errorf("%d bytes announced: %v", MaxSpec+1, err)
	}
}

func FuzzChildSpec(f *testing.F) {
	message, err := encodeSpec(&job.RoleSpec{Job: "digits", Role: job.Role_TRAINER, Spec: &job.JobSpec{Trainers: 2}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	f.Add(message[:7])
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{1, 0, 0, 0, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		spec, _, lost, err := ChildSpec(bytes.NewReader(b))
		if err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.TooLarge {
				t.Fatalf("kind %v: %v", k, err)
			}
			return
		}
		<-lost
		again, err := encodeSpec(spec)
		if err != nil {
			t.Fatal(err)
		}
		if back, _, _, err := ChildSpec(bytes.NewReader(again)); err != nil || !proto.Equal(back, spec) {
			t.Fatalf("%v comes back as %v: %v", spec, back, err)
		}
	})
}

// slow is a launcher that reads when it is told to.
type slow struct {
	bytes.Buffer
	gate   chan struct{} // one token for each Write
	closed bool
}

func (s *slow) Write(b []byte) (int, error) {
	<-s.gate
	return s.Buffer.Write(b)
}

func (s *slow) Close() error {
	s.closed = true
	return nil
}

// A role does not wait for a launcher that does not read, and the last report counts.
func TestReporterToASlowLauncher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to := &slow{gate: make(chan struct{})}
		r := newReporter(to)
		for i := range 100 {
			r.Waits([]*job.Wait{{What: fmt.Sprint("round ", i)}})
			synctest.Wait()
		}
		for range 2 {
			to.gate <- struct{}{}
			synctest.Wait()
		}
		var got []string
		told := reports{}
		from := bytes.NewReader(to.Bytes())
		m := &job.RoleReport{}
		for readFrame(from, "test", MaxReport, m) == nil {
			got = append(got, m.Waits[0].What)
		}
		if want := []string{"round 0", "round 99"}; !slices.Equal(got, want) {
			t.Errorf("reported %q, want %q", got, want)
		}
		began := time.Now()
		r.Close(fault.New(fault.NotFinite, "loss is NaN")) // nobody reads it
		if !to.closed || time.Since(began) != jobspec.DeadlinesOf(nil).LastReport {
			t.Errorf("closed %v after %v", to.closed, time.Since(began))
		}
		r.Close(nil)
		r.Waits(nil)
		close(to.gate)
		synctest.Wait()
		if err := told.read(&to.Buffer); err != nil || told.failure().GetMessage() != "loss is NaN" {
			t.Errorf("%v: %v", told.failure(), err)
		}
		var none *Reporter
		none.Waits(nil)
		none.Close(fault.Internal)
	})
}

// A report is bounded, whatever it says.
func TestReportsAreBounded(t *testing.T) {
	board := &waits.Board{}
	for i := range 2 * waits.MaxListed {
		board.Begin(waits.Wait{What: fmt.Sprint(i, strings.Repeat("x", 1000)), By: slices.Repeat([]string{strings.Repeat("y", 1000)}, 100)})
	}
	for _, m := range []*job.RoleReport{
		{Waits: board.List(0)}, {Failure: wire.FailureOf(fault.New(fault.Corrupt, strings.Repeat("too much to say ", 10_000)))}} {
		b, err := frame(bounded(m))
		if err != nil || len(b) > MaxReport+4 {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		r := &reports{}
		if err := r.read(bytes.NewReader(b)); err != nil || len(r.last.Waits) == 0 && r.failure().GetKind() != int32(fault.Corrupt) {
			t.Errorf("%v", err)
		}
	}
	if err := (&reports{}).read(bytes.NewReader(binary.LittleEndian.AppendUint32(nil, MaxReport+1))); !errors.Is(err, fault.TooLarge) {
		t.Error(err)
	}
}

func FuzzReports(f *testing.F) {
	b, err := frame(&job.RoleReport{Waits: []*job.Wait{{What: "round 7"}}, Failure: &job.Failure{Kind: 1}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add(append(b, b[:9]...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &reports{}
		if err := r.read(bytes.NewReader(b)); err != nil {
			if k := fault.KindOf(err); k != fault.Corrupt && k != fault.TooLarge {
				t.Fatalf("kind %v: %v", k, err)
			}
		}
		if list, _ := r.Waits(); waits.Check(list) != nil {
			t.Errorf("it takes %v", list)
		}
	})
}

// A launcher that takes each piece of a trace late gets all of it, and one that gets only some pieces has no trace.
func TestTraceToASlowLauncher(t *testing.T) {
	trace := &job.Trace{Kernels: []*job.TracedKernel{{Name: strings.Repeat("mul", MaxReport)}}}
	pieces := len(piecesOf(trace))
	for taken := range pieces + 2 {
		synctest.Test(t, func(t *testing.T) {
			to := &slow{gate: make(chan struct{})}
			r := newReporter(to)
			r.Trace(trace)
			go func() {
				for range taken {
					time.Sleep(jobspec.DeadlinesOf(nil).LastReport * 3 / 4)
					to.gate <- struct{}{}
				}
			}()
			r.Close(nil)
			var told reports
			if err := told.read(bytes.NewReader(to.Bytes())); err != nil {
				t.Error(err)
			}
			encoded, _ := told.Trace()
			m := &job.Trace{}
			switch err := proto.Unmarshal(encoded, m); {
			case taken <= pieces && len(encoded) > 0:
				t.Errorf("%d of %d pieces count as a trace", taken, pieces)
			case taken > pieces && (err != nil || !proto.Equal(m, trace)):
				t.Errorf("a trace of %d bytes: %v", len(encoded), err)
			}
			close(to.gate)
		})
	}
}
