package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/internal/etcdtest"
)

// A user who may only touch the keys of EDL, at a server that asks for certificates and passwords, can do all that a job needs.
func TestAccess(t *testing.T) {
	t.Parallel()
	files := etcdtest.Certify(t)
	// Tokens end soon, and with the server: the client must get new ones.
	servers := etcdtest.Start(t, 1, etcdtest.Options{TLS: files, Arguments: []string{"--auth-token-ttl", "1"}})
	protect(t, servers.Client())
	access := Access{CA: files.CA, Certificate: files.ClientCertificate, Key: files.ClientKey, User: "edl", Password: "secret"}
	h := &home{T: t, prefix: Prefix("guarded"), handle: func(c Config) (Registry, error) {
		c.Endpoints, c.Access = servers.Endpoints(), access
		return Open(t.Context(), c)
	}}
	r := h.openWith(Config{renewEvery: 1200 * time.Millisecond}) // which is longer than a token lives
	addresses, err := h.open().WatchAddress(t.Context(), coordinator)
	h.ok(err)
	leader := h.member(r.LeadCoordinator(t.Context(), "host:1"))
	until(h, addresses, "host:1")
	s := r.State(leader)
	h.ok(s.Commit(t.Context(), []Change{{"a", []byte("1")}}))
	h.member(h.open().JoinServer(t.Context(), 0, "host:2"))
	h.ok(r.RevokeLease(t.Context(), server0, 0))

	// The lease is renewed when the token of its client has ended, by its time or with the server.
	renewed(t, leader)
	renewed(t, leader)
	servers.Kill(0)
	servers.Restart(0)
	renewed(t, leader)
	h.ok(s.Commit(bounded(t), []Change{{"b", []byte("2")}}))
	h.entries(s, map[string]string{"a": "1", "b": "2"})
	h.ok(leader.Leave(t.Context()))
	until(h, addresses, "")
	h.ok(r.Forget(t.Context()))

	// A role reads its access from the environment.
	environment := map[string]string{}
	for _, e := range access.Environment() {
		name, value, _ := strings.Cut(e, "=")
		environment[name] = value
	}
	getenv := func(name string) string { return environment[name] }
	if got := AccessFrom(getenv); got != access {
		t.Errorf("through the environment: %+v", got)
	}
	role, err := Open(t.Context(), Config{Endpoints: servers.Endpoints(), Prefix: h.prefix, getenv: getenv})
	h.ok(err)
	h.ok(role.SetDesired(t.Context(), 1))
	h.ok(role.Close())

	wrong := access
	wrong.Password = "guessed"
	stranger := Access{CA: files.CA, Certificate: files.ClientCertificate, Key: files.ClientKey}
	for name, c := range map[string]struct {
		access Access
		prefix string
	}{"a wrong password": {wrong, h.prefix}, "no user": {stranger, h.prefix}, "keys of others": {access, "/other/job"}} {
		if _, err := Open(t.Context(), Config{Endpoints: servers.Endpoints(), Prefix: c.prefix, Access: c.access}); !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
	unknown := access
	unknown.CA = ""
	eventually(t, "refusal of a server of an unknown authority", func() bool { // a slow handshake is no refusal
		_, err := Open(t.Context(), Config{Endpoints: servers.Endpoints(), Prefix: h.prefix, Access: unknown})
		return err != nil && strings.Contains(err.Error(), "unknown authority")
	})
}

// renewed returns when the lease of a member has been renewed once more.
func renewed(t *testing.T, m Membership) {
	t.Helper()
	c := m.(*membership).registry.store.contact()
	answered := func() time.Time {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.answered
	}
	before := answered()
	eventually(t, "renewal of the lease", func() bool { return answered().After(before) })
}

// protect lets only the user "edl" touch the keys of EDL.
func protect(t *testing.T, client *clientv3.Client) {
	t.Helper()
	ctx := bounded(t)
	for _, do := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "root"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.RoleAdd(ctx, "jobs"); return err },
		func() error {
			_, err := client.RoleGrantPermission(ctx, "jobs", root, clientv3.GetPrefixRangeEnd(root), clientv3.PermissionType(clientv3.PermReadWrite))
			return err
		},
		func() error { _, err := client.UserAdd(ctx, "edl", "secret"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "edl", "jobs"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAccessRefuses(t *testing.T) {
	files := etcdtest.Certify(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	safe := []string{"https://host:1"}
	for _, c := range []struct {
		name      string
		access    Access
		endpoints []string
		good      bool
	}{
		{"nothing asked", Access{}, []string{"host:1", "http://host:2"}, true},
		{"servers that the system trusts", Access{}, safe, true},
		{"all", Access{CA: files.CA, Certificate: files.ClientCertificate, Key: files.ClientKey, User: "a", Password: "b"}, safe, true},
		{"no endpoint", Access{}, nil, false},
		{"mixed", Access{}, []string{"https://host:1", "http://host:2"}, false},
		{"no port", Access{}, []string{"https://host"}, false},
		{"a path", Access{}, []string{"https://host:1/x"}, false},
		{"another scheme", Access{}, []string{"ftp://host:1"}, false},
		{"no key", Access{Certificate: files.ClientCertificate}, safe, false},
		{"the key of another", Access{Certificate: files.ClientCertificate, Key: files.ServerKey}, safe, false},
		{"no password", Access{User: "a"}, safe, false},
		{"no user", Access{Password: "a"}, safe, false},
		{"no file", Access{CA: empty + "x"}, safe, false},
		{"an empty file", Access{CA: empty}, safe, false},
	} {
		if err := c.access.Check(c.endpoints); (err == nil) != c.good || err != nil && !errors.Is(err, fault.InvalidArgument) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
