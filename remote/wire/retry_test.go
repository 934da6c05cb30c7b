package wire_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/wire"
)

func TestRetryOnlyWhatMayPass(t *testing.T) {
	for kind := fault.Internal; kind <= fault.Superseded; kind++ {
		synctest.Test(t, func(t *testing.T) {
			var attempts []uint32
			err := wire.Retry(t.Context(), func(attempt uint32) error {
				if attempts = append(attempts, attempt); attempt == 3 {
					return nil
				}
				return fault.New(kind, "no")
			})
			if kind == fault.Unavailable {
				if err != nil || len(attempts) != 4 || attempts[3] != 3 {
					t.Errorf("attempts %v, %v", attempts, err)
				}
			} else if !errors.Is(err, kind) || len(attempts) != 1 {
				t.Errorf("%v: attempts %v, %v", kind, attempts, err)
			}
		})
	}
}

// Attempts go on until the context ends, at least once a second and a half, and the last reason is what is returned.
func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		attempts, start := 0, time.Now()
		err := wire.Retry(ctx, func(uint32) error { attempts++; return fault.New(fault.Unavailable, "refused") })
		if !errors.Is(err, fault.Unavailable) || time.Since(start) != time.Minute || attempts < 40 || attempts > 140 {
			t.Errorf("%d attempts in %v: %v", attempts, time.Since(start), err)
		}
	})
}

// A peer that is gone for longer than the patience is given up; one that comes back in between, or lets a call wait for hours, is not.
func TestRetryWithin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := fault.New(fault.Unavailable, "gone")
		start := time.Now()
		if err := wire.RetryWithin(t.Context(), time.Minute, func(uint32) error { return gone }); err != gone {
			t.Error(err)
		}
		if took := time.Since(start); took < time.Minute || took > time.Minute+2*time.Second {
			t.Errorf("gave up after %v", took)
		}
		cuts := 0
		err := wire.RetryWithin(t.Context(), time.Minute, func(uint32) error {
			if cuts == 5 {
				return nil
			}
			cuts++
			time.Sleep(time.Hour) // the fake clock's: a call that waits and is then cut
			return gone
		})
		if err != nil {
			t.Error(err)
		}
	})
}
