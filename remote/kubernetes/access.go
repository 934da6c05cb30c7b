package kubernetes

import (
	"os"
	"path/filepath"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/cluster"
)

// Names of what an etcd of the user asks for, in the Secret of a role. Those of files are files in the pod, too.
const (
	etcdCA          = "etcd-ca.pem"
	etcdCertificate = "etcd-certificate.pem"
	etcdPrivate     = "etcd-key.pem"
	etcdUser        = "etcd-user"
	etcdPassword    = "etcd-password"
)

// ReadAccess reads what an etcd of the user asks for, for Settings.Etcd: pods do not have the files of this machine.
func ReadAccess(a cluster.Access) (map[string][]byte, error) {
	all := map[string][]byte{}
	for name, path := range map[string]string{etcdCA: a.CA, etcdCertificate: a.Certificate, etcdPrivate: a.Key} {
		if path == "" {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fault.File(fault.InvalidArgument, path, err)
		}
		all[name] = b
	}
	if a.User != "" {
		all[etcdUser], all[etcdPassword] = []byte(a.User), []byte(a.Password)
	}
	return all, nil
}

// Access is what ReadAccess has read, in a pod.
func (p Pod) Access() (a cluster.Access) {
	for name, to := range map[string]*string{etcdCA: &a.CA, etcdCertificate: &a.Certificate, etcdPrivate: &a.Key} {
		path := filepath.Join(p.SecretDir, name)
		if _, err := os.Stat(path); err == nil {
			*to = path
		}
	}
	for name, to := range map[string]*string{etcdUser: &a.User, etcdPassword: &a.Password} {
		b, _ := os.ReadFile(filepath.Join(p.SecretDir, name)) // most clusters have none
		*to = string(b)
	}
	return a
}
