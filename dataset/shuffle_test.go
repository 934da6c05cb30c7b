package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// numbered yields n records without bytes but for their number as one byte, all in the same memory.
func numbered(n int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		b := make([]byte, 1)
		for i := range n {
			b[0] = byte(i)
			if !yield(Record{Number: int64(i), Bytes: b}, nil) {
				return
			}
		}
	}
}

func order(t testing.TB, records iter.Seq2[Record, error]) (numbers []int64) {
	t.Helper()
	for r, err := range records {
		if err != nil || int64(r.Bytes[0]) != r.Number {
			t.Fatalf("record %d with bytes %v, error %v", r.Number, r.Bytes, err)
		}
		numbers = append(numbers, r.Number)
	}
	return numbers
}

func TestShufflePermutesEachBuffer(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n, size := rapid.IntRange(0, 100).Draw(rt, "records"), rapid.IntRange(0, 120).Draw(rt, "size")
		got := order(t, Shuffle(numbered(n), size, 3, 1))
		if len(got) != n {
			rt.Fatalf("%d records of %d", len(got), n)
		}
		for from, size := 0, max(1, size); from < n; from += size {
			buffer := slices.Sorted(slices.Values(got[from:min(n, from+size)]))
			if buffer[0] != int64(from) || buffer[len(buffer)-1] != int64(from+len(buffer)-1) {
				rt.Fatalf("records %d.. of the order hold %v", from, buffer)
			}
		}
	})
}

func TestShuffleIsAFunctionOfSeedAndPass(t *testing.T) {
	shuffled := func(seed, pass uint64) string { return fmt.Sprint(order(t, Shuffle(numbered(50), 20, seed, pass))) }
	if first, second := shuffled(1, 0), shuffled(1, 0); first != second {
		t.Error("the same seed and pass gave two orders")
	}
	if shuffled(1, 0) == shuffled(1, 1) || shuffled(1, 0) == shuffled(2, 0) {
		t.Error("another pass or seed gave the same order")
	}
}

// The order is part of what a checkpoint relies on: it must not change between releases.
func TestShuffleOrderIsPinned(t *testing.T) {
	if got := fmt.Sprint(order(t, Shuffle(numbered(8), 8, 1, 0))); got != "[2 7 1 5 6 4 0 3]" {
		t.Errorf("order %s", got)
	}
}

func TestShufflePassesErrorsOnAndStops(t *testing.T) {
	d, _ := threeFiles(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n := 0
	for _, err := range Shuffle(d.Records(ctx, 0, 10), 4, 1, 0) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d values", n)
	}
	for range Shuffle(numbered(100), 10, 1, 0) {
		if n++; n == 5 {
			break
		}
	}
	if n != 5 {
		t.Errorf("a broken loop ran to %d", n)
	}
}
