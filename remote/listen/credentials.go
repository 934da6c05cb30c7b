package listen

import (
	"strings"
	"time"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
	"github.com/edl-go/edl/remote/wire"
)

// credentialLife is how long the credentials of a role or of a listener are valid: longer than any job runs. They are gone with the process that has them.
const credentialLife = 400 * 24 * time.Hour

// OwnCredentials are those of a listener of an authority.
func OwnCredentials(a *credential.Authority) (*credential.Credentials, error) {
	return a.Issue(credential.Name{Kind: credential.Listener}, credentialLife)
}

// sideOf is how the listener speaks to the roles of a job.
func sideOf(j *Job) (*wire.Side, error) { return SideOf(j.manager.cfg.Authority, j.ID) }

// SideOf is how a listener with an authority speaks to the roles of a job; without one in clear text.
func SideOf(authority *credential.Authority, job string) (*wire.Side, error) {
	if authority == nil {
		return nil, nil
	}
	own, err := OwnCredentials(authority)
	if err != nil {
		return nil, err
	}
	return wire.OfJob(own, job), nil
}

// giveCredentials gives a role credentials of its own: for the other roles, and for the etcd of the listener.
func giveCredentials(cfg Config, spec *job.RoleSpec) error {
	name := credential.Name{Kind: credential.Role, Job: spec.Job, Role: strings.ToLower(spec.Role.String()), Index: int(spec.Index)}
	for _, of := range []struct {
		authority *credential.Authority
		give      *[]byte
	}{{cfg.Authority, &spec.Credentials}, {cfg.EtcdAuthority, &spec.EtcdCredentials}} {
		if of.authority == nil {
			continue
		}
		c, err := of.authority.Issue(name, credentialLife)
		if err != nil {
			return err
		}
		*of.give = c.PEM()
	}
	return nil
}
