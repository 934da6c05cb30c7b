package dataset

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/edl-go/edl/fault"
)

// count yields 0 to n-1, records how far it got, and in the end err, if any.
func count(n int, made *int, err error) func(yield func(int, error) bool) {
	return func(yield func(int, error) bool) {
		for i := range n {
			*made = i + 1
			if !yield(i, nil) {
				return
			}
		}
		if err != nil {
			yield(0, err)
		}
	}
}

func TestPrefetchYieldsEverythingInOrder(t *testing.T) {
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		made, next := 0, 0
		var last error
		for v, err := range Prefetch(context.Background(), count(100, &made, want), 3) {
			if last = err; err == nil && v != next {
				t.Fatalf("got %d, want %d", v, next)
			} else if err == nil {
				next++
			}
		}
		if next != 100 || last != want {
			t.Errorf("%d values, error %v, want %v", next, last, want)
		}
	}
}

func TestPrefetchRunsAheadByItsDepth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		for v := range Prefetch(context.Background(), count(100, &made, nil), 2) {
			synctest.Wait()
			if want := min(100, v+1+2+1); made != want {
				t.Fatalf("%d values made while %d is in use, want %d", made, v, want)
			}
		}
	})
}

// In a synctest bubble a goroutine that outlives the test is a failure.
func TestPrefetchEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := 0
		for v := range Prefetch(context.Background(), count(100, &made, nil), 2) {
			if v == 5 {
				break
			}
		}
		if made > 10 {
			t.Errorf("%d values made after the loop was left", made)
		}
	})
}

func TestPrefetchEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waits := func(yield func(int, error) bool) {
			if yield(1, nil) {
				<-ctx.Done()
			}
		}
		var got []string
		for v, err := range Prefetch(ctx, waits, 1) {
			got = append(got, fmt.Sprint(v, errors.Is(err, fault.Canceled)))
			cancel()
		}
		if fmt.Sprint(got) != "[1 false 0 true]" {
			t.Errorf("got %v", got)
		}
	})
}

func TestPrefetchedBatchesAreIntact(t *testing.T) {
	d, _ := threeFiles(t)
	const depth = 2
	b := newBatcher(t, BatchOptions{Rows: 1, Slots: depth + 2})
	next := int64(0)
	for batch, err := range Prefetch(context.Background(), b.Batches(d.Records(context.Background(), 0, 10), Part{}), depth) {
		if err != nil || batch.Tensors[1].Int64s()[0] != next {
			t.Fatalf("batch %d holds %v, error %v", next, batch.Tensors[1].Int64s(), err)
		}
		next++
	}
	if next != 10 {
		t.Fatalf("%d batches", next)
	}
}
