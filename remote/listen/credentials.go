package listen

import (
	"cmp"
	"context"
	"log/slog"
	"strings"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/wire"
)

// CredentialLife is how long the credentials of roles and listeners are valid, if nobody says otherwise. Others take their place after a third of it.
const CredentialLife = 24 * time.Hour

// OwnCredentials are those of a listener of an authority, which renew themselves. A life of 0 is CredentialLife.
func OwnCredentials(a *credential.Authority, life time.Duration) (*credential.Credentials, error) {
	return a.IssueRenewing(credential.Name{Kind: credential.Listener}, cmp.Or(life, CredentialLife))
}

// EtcdCredentials are those of an etcd whose authority issues for no other: both end with the process, and so they are valid for as long as each other.
func EtcdCredentials(a *credential.Authority) (*credential.Credentials, error) {
	return a.Issue(credential.Name{Kind: credential.Listener}, time.Until(a.Expires()))
}

// sideOf is how the listener speaks to the roles of a job.
func sideOf(j *Job) (*wire.Side, error) {
	return SideOf(j.manager.cfg.Authority, j.ID, j.manager.cfg.CredentialLife)
}

// SideOf is how a listener with an authority speaks to the roles of a job; without one in clear text. Its credentials renew themselves; a life of 0 is CredentialLife.
func SideOf(authority *credential.Authority, job string, life time.Duration) (*wire.Side, error) {
	if authority == nil {
		return nil, nil
	}
	own, err := OwnCredentials(authority, life)
	if err != nil {
		return nil, err
	}
	return wire.OfJob(own, job), nil
}

// credentialsOf issues credentials for a role: for the other roles, and for the etcd of the listener.
func credentialsOf(cfg Config, spec *job.RoleSpec) (*job.RoleRenewal, error) {
	name := credential.Name{Kind: credential.Role, Job: spec.Job, Role: strings.ToLower(spec.Role.String()), Index: int(spec.Index)}
	m := &job.RoleRenewal{}
	for _, of := range []struct {
		authority *credential.Authority
		give      *[]byte
	}{{cfg.Authority, &m.Credentials}, {cfg.EtcdAuthority, &m.EtcdCredentials}} {
		if of.authority == nil {
			continue
		}
		c, err := of.authority.Issue(name, cmp.Or(cfg.CredentialLife, CredentialLife))
		if err != nil {
			return nil, err
		}
		*of.give = c.PEM()
	}
	return m, nil
}

// The clock of the wall is looked at at least each renewalPause: it goes on while the machine sleeps, and timers do not. After a renewal that has failed the next try
// comes after renewalSoon, and each further one after twice the time, up to renewalPause; all three are no more than a tenth of the time between two renewals.
const (
	renewalSoon  = time.Second
	renewalPause = time.Minute
)

// renew gives a role the next credentials each time that a third of the life of the last ones is over, until ctx ends. Of a role that an earlier listener has
// started it is not known when that is, so it gets them at once. A renewal that fails is tried again: at first the node of a role may not have answered yet.
func renew(ctx context.Context, cfg Config, spec *job.RoleSpec, h launch.Handle, atOnce bool) {
	if cfg.Authority == nil && cfg.EtcdAuthority == nil {
		return
	}
	every := cmp.Or(cfg.CredentialLife, CredentialLife) / credential.RenewAfter
	most := min(renewalPause, every/10)
	due := time.Now().Round(0) // without the clock of timers
	if !atOnce {
		due = due.Add(every)
	}
	for failed := time.Duration(0); ; { // failed: the last pause after a failure; 0: there was none since the last renewal
		timer := time.NewTimer(min(most, max(0, time.Until(due))))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if time.Now().Before(due) {
			continue
		}
		m, err := credentialsOf(cfg, spec)
		if err == nil {
			err = h.Renew(m)
		}
		if err == nil {
			failed, due = 0, time.Now().Round(0).Add(every)
			continue
		}
		failed = min(most, max(renewalSoon, 2*failed))
		due = time.Now().Round(0).Add(failed)
		if ctx.Err() == nil {
			level := slog.LevelInfo
			if failed == most {
				level = slog.LevelWarn
			}
			cfg.Log.Log(ctx, level, "the next credentials of a role could not be given to it; trying again", "job", spec.Job, "role", spec.Role.String(), "index", spec.Index, "in", failed, "error", err)
		}
	}
}
