package chaos_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/edl-go/edl/internal/etcdtest"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
	"github.com/edl-go/edl/remote/role"
	"github.com/edl-go/edl/remote/wire"
)

// A rig is a cluster on this machine whose roles, and whose etcd server, are processes, and whose connections go over links. It implements
// launch.Launcher.
type rig struct {
	*links
	listener *remote.Listener
	client   rpc.ListenerClient
	etcd     *etcdtest.Cluster // of one server
	store    *clientv3.Client
	job      string // the last that was submitted

	mu      sync.Mutex
	handles map[string]launch.Handle // the last of each role, such as "trainer-1"
	starts  map[string]int
}

func newRig(t testing.TB) *rig {
	t.Helper()
	etcd := etcdtest.Start(t, 1, etcdtest.Options{})
	r := &rig{links: newLinks(t), etcd: etcd, store: etcd.Client(), handles: map[string]launch.Handle{}, starts: map[string]int{}}
	var err error
	if r.listener, err = remote.Listen(bounded(t), remote.WithLauncher(r), remote.WithEtcd(etcd.Endpoints()...)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.listener.Close(); err != nil {
			t.Errorf("the end of the listener: %v", err)
		}
	})
	conn, err := wire.Dial(r.listener.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r.client = rpc.NewListenerClient(conn)
	return r
}

// Start implements launch.Launcher: each role reaches etcd over a link of its own.
func (r *rig) Start(ctx context.Context, spec *job.RoleSpec, log io.Writer) (launch.Handle, error) {
	name := role.Name(spec)
	spec.Etcd = []string{r.to("etcd of "+name, strings.TrimPrefix(r.etcd.Endpoints()[0], "http://"))}
	if *logs != "" {
		file, err := os.OpenFile(filepath.Join(*logs, spec.Job+"-"+name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return nil, err
		}
		r.t.Cleanup(func() { file.Close() })
		log = io.MultiWriter(log, file)
	}
	h, err := launch.Processes{Binary: os.Args[0], Env: []string{childEnv + "=1"}}.Start(ctx, spec, log)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.handles[name] = h
	r.starts[name]++
	return h, nil
}

// signal sends a signal to the process of a role, if there is one.
func (r *rig) signal(name string, s syscall.Signal) error {
	r.mu.Lock()
	h := r.handles[name]
	r.mu.Unlock()
	if h == nil {
		return fmt.Errorf("no %s was started", name)
	}
	return syscall.Kill(h.Pid(), s)
}

// redirect replaces every address that a role of the job announces by that of a link to it, until ctx ends.
func (r *rig) redirect(ctx context.Context, id string) {
	prefix := cluster.Prefix(id) + "/"
	for event := range r.store.Watch(ctx, prefix, clientv3.WithPrefix()) {
		for _, e := range event.Events {
			key, value := string(e.Kv.Key), string(e.Kv.Value)
			name, isAddress := linkName(strings.TrimPrefix(key, prefix))
			if !isAddress || e.Type != clientv3.EventTypePut || r.owns(value) {
				continue
			}
			link := r.to(name, value)
			// The key keeps its lease and its create revision: it is still its holder's. Etcd may be away for a while.
			again := true
			for again {
				_, err := r.store.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", e.Kv.ModRevision)).
					Then(clientv3.OpPut(key, link, clientv3.WithIgnoreLease())).Commit()
				again = err != nil && pass(ctx, 10*time.Millisecond)
			}
		}
	}
}

// linkName names the link to what announces itself under a key.
func linkName(key string) (string, bool) {
	if key == "master/addr" {
		return "coordinator", true
	}
	index, ok := strings.CutPrefix(key, "ps/")
	return "pserver-" + index, ok
}
