package listen

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/launch"
)

// renewed is a role that takes credentials but from a time to another one, as one whose node does not answer then.
type renewed struct {
	launch.Handle
	t          *testing.T
	began      time.Time
	from, to   time.Duration
	expires    time.Time // of the credentials that it has
	taken      []time.Duration
	until      time.Duration
	done       chan struct{} // closed by the first renewal after until
	tries, old int           // old: tries at which it had none that were valid
}

func (r *renewed) Renew(m *job.RoleRenewal) error {
	now := time.Now()
	r.tries++
	if now.After(r.expires) {
		r.old++
	}
	if at := now.Sub(r.began); at >= r.from && at < r.to {
		return fault.E(fault.Unavailable, fault.Got("new credentials for a role whose node has not answered yet"))
	}
	c, err := credential.Parse(m.Credentials)
	if err != nil {
		r.t.Error(err)
		return err
	}
	r.expires, r.taken = c.Expires(), append(r.taken, now.Sub(r.began))
	if now.Sub(r.began) >= r.until && r.done != nil {
		close(r.done)
		r.done = nil
	}
	return nil
}

// A renewal that fails is tried again, soon at first, so that a role has valid credentials at any time unless it is away for two thirds of their life. What passes by itself is no warning.
func TestRenewalsAreTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		life     time.Duration
		atOnce   bool // the role is one of an earlier listener, whose credentials are two thirds old
		from, to time.Duration
		taken    []time.Duration // so far: the first renewals
		tries    int             // at most, until the first that succeeds after from
		warns    bool
	}{
		"nothing fails":                  {24 * time.Hour, false, 0, 0, []time.Duration{8 * time.Hour, 16 * time.Hour, 24 * time.Hour}, 1, false},
		"taken over":                     {24 * time.Hour, true, 0, 0, []time.Duration{0, 8 * time.Hour}, 1, false},
		"taken over, no node yet":        {24 * time.Hour, true, 0, 100 * time.Millisecond, []time.Duration{time.Second, 8*time.Hour + time.Second}, 2, false},
		"taken over, no node for long":   {24 * time.Hour, true, 0, 7 * time.Hour, []time.Duration{7*time.Hour + 3*time.Second}, 430, true},
		"a node is away":                 {24 * time.Hour, false, 8 * time.Hour, 23 * time.Hour, []time.Duration{23*time.Hour + 3*time.Second}, 910, true},
		"short lives, taken over":        {30 * time.Second, true, 0, 9 * time.Second, []time.Duration{9 * time.Second, 19 * time.Second}, 10, true},
		"short lives, and a node's away": {30 * time.Second, false, 10 * time.Second, 15 * time.Second, []time.Duration{15 * time.Second, 25 * time.Second}, 6, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				authority, err := credential.NewAuthority()
				if err != nil {
					t.Fatal(err)
				}
				var log bytes.Buffer
				cfg := Config{Authority: authority, CredentialLife: c.life, Log: slog.New(slog.NewTextHandler(&log, nil))}
				r := &renewed{t: t, began: time.Now(), from: c.from, to: c.to, expires: time.Now().Add(c.life), until: c.taken[len(c.taken)-1]}
				done := make(chan struct{})
				r.done = done
				if c.atOnce {
					r.expires = time.Now().Add(c.life / 3)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					renew(ctx, cfg, &job.RoleSpec{Job: "j", Role: job.Role_TRAINER}, r, c.atOnce)
				}()
				<-done
				cancel()
				<-ended
				if r.old > 0 {
					t.Errorf("%d times without valid credentials", r.old)
				}
				for i, want := range c.taken {
					if late := r.taken[i] - want; late < 0 || late > min(renewalPause, c.life/30) {
						t.Errorf("renewals after %v, want %v", r.taken, c.taken)
					}
				}
				if first := r.tries - len(r.taken) + 1; first > c.tries {
					t.Errorf("%d tries until one succeeds, want at most %d", first, c.tries)
				}
				if warns := strings.Contains(log.String(), "level=WARN"); warns != c.warns {
					t.Errorf("a warning: %v, want %v: %s", warns, c.warns, log.String())
				}
			})
		})
	}
}
