package pytorch

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestKernelsNeedTheirInstructions(t *testing.T) {
	const all = "flags\t\t: fpu avx2 avx512f avx512dq avx512cd avx512bw avx512vl\n"
	for _, test := range []struct {
		info string
		want []string
	}{
		{"processor\t: 0\n" + all, []string{Own, SkylakeX}},
		{"processor\t: 0\n" + strings.ReplaceAll(all, " avx512vl", ""), []string{Own}},
		{"processor\t: 0\n", []string{Own}},
		{"", []string{Own}},
	} {
		if got := kernelsFor([]byte(test.info)); !slices.Equal(got, test.want) {
			t.Errorf("%q: %q", test.info, got)
		}
	}
}

func TestFastestTakesTurns(t *testing.T) {
	times := map[string][]float64{Own: {5, 4, 9}, SkylakeX: {7, 8, 3}}
	var order []string
	got, err := Fastest([]string{Own, SkylakeX}, func(choice string) (float64, error) {
		order = append(order, choice)
		took := times[choice][0]
		times[choice] = times[choice][1:]
		return took, nil
	})
	if err != nil || got != SkylakeX || !slices.Equal(order, []string{Own, SkylakeX, Own, SkylakeX, Own, SkylakeX}) {
		t.Errorf("%q after %q, %v", got, order, err)
	}
	broken := errors.New("broken")
	fail := func(string) (float64, error) { return 0, broken }
	if got, err := Fastest([]string{Own}, fail); err != nil || got != Own {
		t.Errorf("a single choice: %q, %v", got, err)
	}
	if _, err := Fastest([]string{Own, SkylakeX}, fail); !errors.Is(err, broken) {
		t.Errorf("a measurement that fails: %v", err)
	}
}

func TestEnvironmentSaysTheKernels(t *testing.T) {
	for _, test := range []struct {
		threads int
		kernels string
		want    []string
	}{
		{1, SkylakeX, []string{"OPENBLAS_NUM_THREADS=1", "OPENBLAS_CORETYPE=SkylakeX"}},
		{2, Own, []string{"LD_LIBRARY_PATH=" + openMP}},
	} {
		got := Environment(test.threads, test.kernels)
		want := slices.Concat(keepHeap, test.want)
		if got = got[max(0, len(got)-len(want)):]; !slices.Equal(got, want) {
			t.Errorf("%d threads: ... %q", test.threads, got)
		}
	}
}
