package waits_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/waits"
)

func round() waits.Wait {
	return waits.Wait{Who: "pserver 0", What: "round 7", By: []string{"trainer 1"}}
}

func never() (bool, error) { return false, nil }

// await starts a wait on a goroutine of its own.
func await(ctx context.Context, m *waits.Monitor, reason func() waits.Wait, ok func() (bool, error)) chan error {
	ended := make(chan error, 1)
	go func() { ended <- m.Await(ctx, reason, ok) }()
	synctest.Wait()
	return ended
}

// A wait ends when its condition holds, and is looked at once for each broadcast.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &waits.Monitor{Where: "pserver 0"}
		state, looks := 0, 0
		ended := await(t.Context(), m, round, func() (bool, error) { looks++; return state == 2, nil })
		for range 3 {
			m.Lock()
			state++
			m.Broadcast()
			m.Unlock()
			synctest.Wait()
		}
		if err := <-ended; err != nil || looks != 3 {
			t.Errorf("%d looks, %v", looks, err)
		}
		wrong := fault.New(fault.Stale, "another has come")
		if err := m.Await(t.Context(), round, func() (bool, error) { return false, wrong }); !errors.Is(err, fault.Stale) {
			t.Error(err)
		}
		if m.Version() != 3 {
			t.Errorf("version %d", m.Version())
		}
	})
}

// Every other end says what was waited for, and by whom.
func TestAwaitEndsEarly(t *testing.T) {
	seen := time.Time{}
	limited := func() waits.Wait {
		w := round()
		w.Limit, w.Heard = time.Minute, []string{waits.Heard(seen)}
		return w
	}
	cause := errors.New("the listener has gone")
	for name, c := range map[string]struct {
		reason func() waits.Wait
		end    func(m *waits.Monitor, cancel context.CancelCauseFunc)
		after  time.Duration
		kind   fault.Kind
		says   string
	}{
		"limit": {limited, nil, time.Minute, fault.DeadlineExceeded,
			"pserver 0 of job x: timed out after 1m0s waiting for round 7: trainer 1 (last heard 1m0s ago)"},
		"context": {round, nil, time.Hour, fault.DeadlineExceeded, "pserver 0 of job x: timed out waiting for round 7: trainer 1"},
		"cancel": {round, func(_ *waits.Monitor, cancel context.CancelCauseFunc) { cancel(cause) }, 0, fault.Canceled,
			"pserver 0 of job x: stopped waiting for round 7: trainer 1: the listener has gone"},
		"failure": {round, func(m *waits.Monitor, _ context.CancelCauseFunc) {
			m.End(fault.New(fault.NotFinite, "the loss is NaN"))
		}, 0,
			fault.NotFinite, "the loss is NaN"},
		"end": {round, func(m *waits.Monitor, _ context.CancelCauseFunc) { m.End(nil) }, 0, fault.Stale,
			"pserver 0 of job x: the job ended while waiting for round 7: trainer 1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				seen = began
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ctx, cancelFor := context.WithCancelCause(ctx)
				defer cancelFor(nil)
				m := &waits.Monitor{Where: "pserver 0 of job x"}
				ended := await(ctx, m, c.reason, never)
				if c.end != nil {
					m.Lock()
					c.end(m, cancelFor)
					m.Unlock()
				}
				err := <-ended
				if !errors.Is(err, c.kind) || err.Error() != c.says || time.Since(began) != c.after {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
				if m.Lock(); len(m.List()) != 0 {
					t.Errorf("still listed: %v", m.List())
				}
				m.Unlock()
			})
		})
	}
}

// After the end a wait is answered as far as its condition holds, and after a failure it is not. Only the first end counts.
func TestEnd(t *testing.T) {
	m := &waits.Monitor{Where: "coordinator"}
	m.Lock()
	if !m.End(nil) || m.End(fault.Internal) || !m.Ended() || m.Err() != nil {
		t.Error("the first end does not count")
	}
	m.Unlock()
	if err := m.Await(t.Context(), round, func() (bool, error) { return true, nil }); err != nil {
		t.Error(err)
	}
	m = &waits.Monitor{}
	m.Lock()
	m.End(fault.New(fault.LostMember, "trainer 1"))
	m.Unlock()
	if err := m.Await(t.Context(), round, func() (bool, error) { t.Error("asked"); return true, nil }); !errors.Is(err, fault.LostMember) {
		t.Error(err)
	}
}

// A process that is stopped while it waits gives up no wait when it goes on: the time is not counted, and the list does not show it.
func TestAwaitWhileStopped(t *testing.T) {
	for name, c := range map[string]struct {
		sinceOf func(began, now time.Time) time.Time // as the reason gives it
		until   bool                                 // the reason gives the end, and no limit
		want    time.Duration
	}{
		"limit":                     {nil, false, 2*time.Hour + time.Minute},
		"since":                     {func(began, _ time.Time) time.Time { return began }, false, 2*time.Hour + time.Minute},
		"end":                       {func(began, _ time.Time) time.Time { return began }, true, 2*time.Hour + time.Minute},
		"reason leaves it out, too": {func(began, now time.Time) time.Time { return began.Add(now.Sub(began).Truncate(time.Hour)) }, false, 2*time.Hour + time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &waits.Monitor{}
				began := time.Now()
				reason := func() waits.Wait {
					w := round()
					if c.sinceOf != nil {
						w.Since = c.sinceOf(began, time.Now())
					}
					if w.Limit = time.Minute; c.until {
						w.Until, w.Limit = began.Add(time.Minute), 0
					}
					return w
				}
				stops := 0
				err := m.Await(t.Context(), reason, func() (bool, error) {
					if since := time.Since(began); stops < 2 && since > 0 { // two looks at the clock come an hour late
						for _, listed := range m.List() {
							if left := time.Until(listed.Until.AsTime()); left <= 0 {
								t.Errorf("after %d stops it is listed as over since %v", stops, -left)
							}
						}
						stops++
						time.Sleep(time.Hour - since%time.Hour)
					}
					return false, nil
				})
				if passed := time.Since(began); passed != c.want || !strings.Contains(err.Error(), "after 1m0s waiting for round 7") {
					t.Errorf("after %v: %v", passed, err)
				}
			})
		})
	}
}

// The limit is that of what is waited for now, which changes.
func TestLimitOfAnotherReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &waits.Monitor{}
		w := waits.Wait{What: "generation 2", Limit: time.Minute}
		ended := await(t.Context(), m, func() waits.Wait { return w }, never)
		<-time.After(59 * time.Second)
		m.Lock()
		w = waits.Wait{What: "round 9", Limit: time.Hour}
		m.Broadcast()
		m.Unlock()
		began := time.Now()
		if err := <-ended; !strings.Contains(err.Error(), "after 1h0m0s waiting for round 9") || time.Since(began) != time.Hour-59*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// List tells each thing once, the oldest first, as it is now; what is unlisted it leaves out.
func TestListOfMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &waits.Monitor{}
		by := "trainer 1"
		now := time.Now()
		for range 3 {
			<-time.After(time.Second)
			await(t.Context(), m, func() waits.Wait {
				heard := []string{waits.Heard(now), waits.Heard(time.Time{})}
				return waits.Wait{Who: "a", What: "round 7", By: []string{by, "trainer 3"}, Heard: heard, Limit: time.Hour}
			}, never)
			await(t.Context(), m, func() waits.Wait { return waits.Wait{Who: "b", What: "round 7"} }, never)
			await(t.Context(), m, func() waits.Wait { return waits.Wait{What: "nothing", Unlisted: true} }, never)
		}
		by = "trainer 2"
		m.Lock()
		got := m.List()
		m.Unlock()
		if len(got) != 2 || got[0].Who != "a" || got[1].Who != "b" || !slices.Equal(got[0].By, []string{"trainer 2", "trainer 3"}) ||
			got[0].Since.AsTime().Sub(now) != time.Second || got[0].Until.AsTime().Sub(got[0].Since.AsTime()) != time.Hour || got[1].Until != nil ||
			got[0].LastError != "trainer 2 last heard 3s ago, trainer 3 never heard" {
			t.Errorf("%v", got)
		}
		m.Lock()
		m.End(fault.Canceled)
		m.Unlock()
	})
}

// What a process lists is bounded, and valid, whatever it waits for.
func TestBounds(t *testing.T) {
	long := strings.Repeat("é\xff", 5000)
	b := &waits.Board{}
	for i := range 2 * waits.MaxListed {
		b.Begin(waits.Wait{Who: long[:i], What: long, By: slices.Repeat([]string{long}, 2*waits.MaxNames), LastError: long})
	}
	got := b.List(0)
	if len(got) != waits.MaxListed || !strings.HasPrefix(got[0].What, "é") || !strings.HasSuffix(got[0].What, "...") {
		t.Errorf("%d waits, the first for %.20q", len(got), got[0].GetWhat())
	}
	if err := waits.Check(got); err != nil {
		t.Error(err)
	}
	failed := waits.Wait{LastError: "PutObject: " + long + ": no such host"}.Message().LastError // the reason is at the end
	if len(failed) > waits.MaxText || !strings.HasPrefix(failed, "PutObject: é") || !strings.HasSuffix(failed, ": no such host") {
		t.Errorf("an error of %d bytes: %.20q to %q", len(failed), failed, failed[len(failed)-20:])
	}
	for name, list := range map[string][]*job.Wait{
		"many": append(got, got[0]), "absent": {nil}, "text": {{What: long}}, "name": {{By: []string{long}}},
		"names": {{By: make([]string, waits.MaxNames+1)}}, "time": {{Until: &timestamppb.Timestamp{Nanos: -1}}},
	} {
		if err := waits.Check(list); !errors.Is(err, fault.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A board tells of long waits when they have changed, at most once a period, and of short ones nothing.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &waits.Board{}
		ctx, cancel := context.WithCancel(t.Context())
		type told struct {
			at   time.Duration
			what string
		}
		var got []told
		began, ended := time.Now(), make(chan struct{})
		go func() {
			defer close(ended)
			b.Follow(ctx, time.Second, 3*time.Second, func(list []*job.Wait) {
				text := ""
				for _, w := range list {
					text += w.What + " of " + w.By[0] + " " + w.LastError + ";"
				}
				got = append(got, told{time.Since(began), text})
			})
		}()
		after := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		for range 100 {
			e := b.Begin(waits.Wait{What: "a task", By: []string{"coordinator"}})
			after(100 * time.Millisecond)
			e.End()
		}
		var all []*waits.Entry
		for range 16 {
			all = append(all, b.Begin(waits.Wait{What: "round 7", By: []string{"pserver 1"}}))
		}
		after(5500 * time.Millisecond)
		for range 9 { // changes within one period are told together
			all[0].Update(func(w *waits.Wait) { w.LastError += "x" })
		}
		after(2 * time.Second)
		for _, e := range all {
			e.End()
			e.End()
		}
		after(2 * time.Second)
		want := []told{{13 * time.Second, "round 7 of pserver 1 ;"}, {16 * time.Second, "round 7 of pserver 1 xxxxxxxxx;"}, {18 * time.Second, ""}}
		if !slices.Equal(got, want) {
			t.Errorf("told %v", got)
		}
		cancel()
		<-ended
	})
}

// A process without a board keeps no waits.
func TestNoBoard(t *testing.T) {
	var b *waits.Board
	e := b.Begin(round())
	e.Update(func(w *waits.Wait) { w.LastError = "x" })
	e.End()
	if b.List(0) != nil {
		t.Error("it lists something")
	}
}
