package trainer

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/ops"
)

// addUp makes one of the totals of devices, as share_totals does with sums.
func addUp(parts []ops.Totals) (all ops.Totals, err error) {
	all = ops.Totals{Over: []int64{0}, Values: []float64{0}}
	for _, p := range parts {
		all.Rows, all.Over[0], all.Values[0] = all.Rows+p.Rows, all.Over[0]+p.Over[0], all.Values[0]*10+p.Values[0]
	}
	return all, nil
}

// newDeviceTotals are those of a trainer that has the whole batch, whose devices have rows.
func newDeviceTotals(several int) *deviceTotals {
	t := &deviceTotals{devices: &devices{}}
	t.begin(several)
	return t
}

// All devices of a trainer are told the same at each place, in the order of devices, whoever comes first; also if a device asks again.
func TestDevicesAddUpTheirTotals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		totals := newDeviceTotals(3)
		answers := make(chan []ops.Totals, 9)
		for _, device := range []int{2, 0, 1} {
			go func() {
				for _, place := range []int{0, 1, 1} {
					all, err := totals.share(t.Context(), device, place, ops.Totals{Rows: 2, Over: []int64{2}, Values: []float64{float64(3*place + device + 1)}}, addUp)
					if err != nil {
						t.Error(err)
					}
					answers <- all
				}
			}()
			synctest.Wait()
		}
		var told []float64
		for range 9 {
			all := <-answers
			if len(all) != 1 || all[0].Rows != 6 {
				t.Fatalf("told %v, want one part of 6 rows", all)
			}
			told = append(told, all[0].Values[0])
		}
		slices.Sort(told)
		if want := []float64{123, 123, 123, 456, 456, 456, 456, 456, 456}; !slices.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
}

// A device that waits for another one is let go when that one fails, or when its step ends.
func TestDevicesDoNotWaitForOneThatHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		totals, failure := newDeviceTotals(2), fault.New(fault.NotFinite, "a device that fails")
		own := ops.Totals{Rows: 1, Over: []int64{1}, Values: []float64{1}}
		told := make(chan error, 1)
		wait := func(ctx context.Context) {
			_, err := totals.share(ctx, 0, 0, own, addUp)
			told <- err
		}
		ctx, cancel := context.WithCancel(t.Context())
		go wait(ctx)
		synctest.Wait()
		cancel()
		if err := <-told; !errors.Is(err, fault.Canceled) {
			t.Errorf("%v at the end of the step", err)
		}
		go wait(t.Context())
		synctest.Wait()
		totals.fail(failure)
		if err := <-told; !errors.Is(err, fault.NotFinite) {
			t.Errorf("%v, want that of the other device", err)
		}
		if _, err := totals.share(t.Context(), 0, 0, own, addUp); !errors.Is(err, fault.NotFinite) {
			t.Errorf("%v after the failure", err)
		}
		totals.begin(1)
		if _, err := totals.share(t.Context(), 0, 0, own, addUp); err != nil {
			t.Errorf("%v in the next step", err)
		}
	})
}
