package edlcmd

import (
	"bytes"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
)

func TestDifferencesAreThoseOfBits(t *testing.T) {
	nan, negativeZero := float32(math.NaN()), float32(math.Copysign(0, -1))
	for _, test := range []struct {
		name      string
		x, y      []float32
		differing int
		largest   float64
	}{
		{"equal", []float32{1, 2}, []float32{1, 2}, 0, 0},
		{"equal NaN", []float32{nan}, []float32{nan}, 0, 0},
		{"signs of zero", []float32{0}, []float32{negativeZero}, 1, 0},
		{"numbers", []float32{1, 2, 3}, []float32{1, 2.5, 2}, 2, 1},
		{"number and NaN", []float32{1}, []float32{nan}, 1, math.Inf(1)},
	} {
		n := int64(len(test.x))
		got := compare("w", vector(t, test.x, n), vector(t, test.y, n))
		if got.Differing != test.differing || float64(got.Largest) != test.largest || got.Elements != len(test.x) {
			t.Errorf("%s: %+v", test.name, got)
		}
	}
	// Neighbours among large whole numbers are one float64, but not one number.
	got := compare("n", vector(t, []int64{1 << 60}, 1), vector(t, []int64{1<<60 + 1}, 1))
	if got.Differing != 1 {
		t.Errorf("whole numbers: %+v", got)
	}
}

// Large tensors are compared where they are, however many elements differ: a copy would use the memory of a table that has room for many rows.
func TestComparingTakesNoMemory(t *testing.T) {
	const n = 1<<20 + 5
	x, y := make([]float32, n), make([]float32, n)
	for _, i := range []int{0, comparedTogether, n - 1} {
		y[i] = float32(i) + 1
	}
	a, b := vector(t, x, n), vector(t, y, n)
	var got difference
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got = compare("w", a, b)
	runtime.ReadMemStats(&after)
	if got.Differing != 3 || got.Largest != n || got.Elements != n {
		t.Errorf("%+v", got)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken >= n {
		t.Errorf("comparing %d elements allocates %d bytes", n, taken)
	}
}

// In sync mode any other bit is a failed verification that names the variable; in async mode it is only shown.
func TestVerdict(t *testing.T) {
	same, close, far := difference{Name: "a", Elements: 4}, difference{Name: "b", Elements: 4, Differing: 1, Largest: 1e-9},
		difference{Name: "c", Elements: 4, Differing: 2, Largest: 0.5}
	for _, test := range []struct {
		mode        job.Mode
		differences []difference
		names       string // the variable of the failure
		all         bool
		lines       int
		shown       string
	}{
		{job.Mode_SYNC, []difference{same}, "", false, 1, "bitwise equal after 7 steps: 1 variable, sync, 2 trainers, 1 pserver\n"},
		{job.Mode_SYNC, []difference{same}, "", true, 3, "bitwise equal after 7 steps: 1 variable, sync, 2 trainers, 1 pserver\n"},
		{job.Mode_SYNC, []difference{same, close, far}, "c", false, 4, "different after 7 steps: 2 of 3 variables, sync, 2 trainers, 1 pserver\n"},
		{job.Mode_SYNC, []difference{same, close, far}, "c", true, 5, "different after 7 steps: 2 of 3 variables, sync, 2 trainers, 1 pserver\n"},
		{job.Mode_SYNC, []difference{{Name: "z", Elements: 1, Differing: 1}}, "z", false, 3, "different after 7 steps: 1 of 1 variable, sync"},
		{job.Mode_ASYNC, []difference{same, far}, "", false, 3, "different after 7 steps: 1 of 2 variables, async"},
	} {
		var out bytes.Buffer
		spec := &job.JobSpec{Mode: test.mode, Trainers: 2, Pservers: 1}
		flags := &verifyFlags{all: test.all, output: &choice{value: "table"}}
		err := reportDifferences(&console{out: &out}, flags, spec, executor.Summary{Steps: 7}, test.differences, nil)
		if !strings.Contains(out.String(), test.shown) || strings.Count(out.String(), "\n") != test.lines {
			t.Errorf("shown\n%s\nwant %d lines with\n%s", out.String(), test.lines, test.shown)
		}
		var f *fault.Fault
		if test.names == "" && err != nil || test.names != "" && (!errors.As(err, &f) || f.Variable != test.names || f.Kind.ExitCode() != 3) {
			t.Errorf("%v of %v: %v", test.mode, test.differences, err)
		}
	}
}
