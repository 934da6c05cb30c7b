package limits

import (
	"slices"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/edl-go/edl/ops/kernel/peak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBestRateRunsEveryThread(t *testing.T) {
	var ran [3]atomic.Int64
	rate := bestRate(len(ran), 2, func(thread int) func(int) int64 {
		return func(rounds int) int64 {
			ran[thread].Add(1)
			total := uint64(0)
			for range rounds {
				total += sum(make([]uint64, 8))
			}
			return int64(rounds) + int64(total)
		}
	})
	for i := range ran {
		if n := ran[i].Load(); n < 2 {
			t.Errorf("thread %d ran %d times in 2 trials", i, n)
		}
	}
	if rate <= 0 {
		t.Errorf("a rate of %v", rate)
	}
}

func TestPeakNamesWhatReachedIt(t *testing.T) {
	known := peak.Loops()
	rate, instructions := Peak(1, 1)
	named := slices.ContainsFunc(known, func(l peak.Loop) bool { return l.Level == instructions })
	if (rate > 0) != (len(known) > 0) || named != (len(known) > 0) {
		t.Errorf("%v operations a second with %q", rate, instructions)
	}
}

func TestSumReadsEveryWord(t *testing.T) {
	words := make([]uint64, 24)
	want := uint64(0)
	for i := range words {
		words[i] = 1 << i
		want += words[i]
	}
	if got := sum(words); got != want {
		t.Errorf("%b, want %b", got, want)
	}
}
