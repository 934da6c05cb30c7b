package measure

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
)

func TestRepeatTakesTurnsAndCountsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		next := 0
		r, err := Repeat(10*Window, func(i int) error {
			if i != next {
				t.Fatalf("repetition %d after %d", i, next-1)
			}
			next++
			time.Sleep(Window / 4) // on the clock of the bubble
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		quarter := float64(Window.Microseconds()) / 4
		if r.Windows != 8 || r.Fastest != quarter || r.Median != quarter {
			t.Errorf("%+v", r)
		}
		if r.CPUFastest < 0 || r.CPUMedian < r.CPUFastest || r.CPUMedian > quarter*100 {
			t.Errorf("processor time %v, at least %v", r.CPUMedian, r.CPUFastest)
		}
		if warmUp := 10; next != warmUp+8*5 {
			t.Errorf("%d repetitions", next)
		}
	})
}

func TestRepeatEndsWithTheFirstError(t *testing.T) {
	broken := errors.New("broken")
	for _, at := range []int{0, Fewest} {
		calls := 0
		_, err := Repeat(time.Nanosecond, func(i int) error {
			calls++
			if i == at {
				return broken
			}
			return nil
		})
		if err != broken || calls != at+1 {
			t.Errorf("failing at %d: %v after %d calls", at, err, calls)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		sorted []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{1, 2}, 1.5}, {[]float64{1, 2, 9}, 2}, {[]float64{1, 2, 4, 9}, 3}} {
		if got := Median(test.sorted); got != test.want {
			t.Errorf("median of %v: %v", test.sorted, got)
		}
	}
}

func TestResultTravelsAsALine(t *testing.T) {
	want := Result{Median: 1.5, Fastest: 1.25, Windows: 7, PeakMemory: 1 << 40, StartMemory: 3}
	var line bytes.Buffer
	if err := want.Write(&line); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(line.Bytes()); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Read([]byte("Traceback")); err == nil {
		t.Error("no error for a line that is no measurement")
	}
}

func TestPeakMemoryHoldsWhatWasTouched(t *testing.T) {
	held := make([]byte, 64<<20)
	for i := 0; i < len(held); i += 4096 {
		held[i] = 1
	}
	peak, err := PeakMemory()
	if err != nil {
		t.Skip("no /proc/self/status: ", err)
	}
	if peak < int64(len(held)) {
		t.Errorf("%d bytes at the peak, after touching %d", peak, len(held))
	}
}

func TestCommandPrintsAResultOrSaysWhatIsWrong(t *testing.T) {
	setup := func(_ context.Context, workload string, threads int) (Work, error) {
		if workload != "known" || threads != 1 {
			return nil, fault.New(fault.InvalidArgument, "no such workload")
		}
		return func(int) error { return nil }, nil
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, test := range []struct {
		arguments []string
		ok        bool
	}{
		{[]string{"known", "1", "0"}, true},
		{[]string{"known", "1"}, false},
		{[]string{"known", "0", "0"}, false},
		{[]string{"known", "1", "soon"}, false},
		{[]string{"unknown", "1", "0"}, false},
	} {
		var out bytes.Buffer
		err := command(t.Context(), test.arguments, &out, setup)
		if (err == nil) != test.ok {
			t.Errorf("%q: %v", test.arguments, err)
		}
		if err != nil && fault.KindOf(err) != fault.InvalidArgument {
			t.Errorf("%q: a fault of kind %v", test.arguments, fault.KindOf(err))
		}
		if r, err := Read(out.Bytes()); test.ok && (err != nil || r.Windows != Fewest || r.PeakMemory < r.StartMemory) {
			t.Errorf("%q printed %s", test.arguments, out.Bytes())
		}
	}
}
