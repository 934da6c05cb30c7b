package role

import (
	"errors"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/credential"
)

// renew lets each renewal take the place of the credentials, until stop. Of one that is none of this role the log tells, and the role goes on with those that it has.
func renew(r *runner, from <-chan *job.RoleRenewal) (stop func()) {
	if from == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case m := <-from:
				if err := errors.Join(replace(r.own, m.Credentials), replace(r.etcd, m.EtcdCredentials)); err != nil {
					r.log.Error("the next credentials are not taken", "error", err)
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done); <-ended }
}

// replace lets encoded credentials, if there are any, take the place of those that a role has.
func replace(own *credential.Credentials, encoded []byte) error {
	if own == nil || len(encoded) == 0 {
		return nil
	}
	next, err := credential.Parse(encoded)
	if err != nil {
		return err
	}
	return own.Renew(next)
}
