package cluster

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/authpb"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"

	"github.com/edl-go/edl/remote/credential"
)

// This file gives the roles of each job their own keys, and no others, in an embedded server with credentials. Etcd takes the common name of a certificate for its user, so no password is
// needed. A request that meets a change of users changes nothing, and the client of etcd sends it again.
//
//	user                       of                          may
//	root                       nobody: etcd asks for one   everything; it has no password, and no certificate has this name
//	listener                   listeners                   everything
//	job/JOB                    all roles of a job          read and write the keys below the prefix of the job

// rootUser is what etcd calls the user and the role that may do everything.
const rootUser = "root"

// guard makes the users of a new server, which from then on refuses all others.
func guard(ctx context.Context, server *etcdserver.EtcdServer) error {
	for _, user := range []string{rootUser, credential.Name{Kind: credential.Listener}.EtcdUser()} {
		if _, err := server.UserAdd(ctx, &etcdserverpb.AuthUserAddRequest{Name: user, Options: &authpb.UserAddOptions{NoPassword: true}}); err != nil {
			return err
		}
		if _, err := server.UserGrantRole(ctx, &etcdserverpb.AuthUserGrantRoleRequest{User: user, Role: rootUser}); err != nil {
			return err
		}
	}
	_, err := server.AuthEnable(ctx, &etcdserverpb.AuthEnableRequest{})
	return err
}

// admit lets the user of a job reach the keys below prefix. It may have been let in before.
func (s *etcdStore) admit(ctx context.Context, user, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	below := prefix + "/"
	for _, do := range []func() error{
		func() error { _, err := s.client.RoleAdd(ctx, user); return err },
		func() error {
			_, err := s.client.RoleGrantPermission(ctx, user, below, clientv3.GetPrefixRangeEnd(below), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error {
			_, err := s.client.UserAddWithOptions(ctx, user, "", &clientv3.UserAddOptions{NoPassword: true})
			return err
		},
		func() error { _, err := s.client.UserGrantRole(ctx, user, user); return err },
	} {
		if err := rpctypes.Error(do()); err != nil && !errors.Is(err, rpctypes.ErrRoleAlreadyExist) && !errors.Is(err, rpctypes.ErrUserAlreadyExist) {
			return etcdFault("etcd", err)
		}
	}
	return nil
}

// dismiss takes back what admit has given.
func (s *etcdStore) dismiss(ctx context.Context, user string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := s.client.UserDelete(ctx, user)
	if err = rpctypes.Error(err); errors.Is(err, rpctypes.ErrUserNotFound) {
		err = nil
	}
	_, failed := s.client.RoleDelete(ctx, user)
	if failed = rpctypes.Error(failed); errors.Is(failed, rpctypes.ErrRoleNotFound) {
		failed = nil
	}
	if err = errors.Join(err, failed); err != nil {
		return etcdFault("etcd", err)
	}
	return nil
}
