// Package etcdtest runs real etcd servers, as processes, for tests: they can be killed, paused and started again. The server is built from its
// module, in the version of go.mod, once for all tests of this user.
package etcdtest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// A Cluster is a few etcd servers that are members of each other. Its methods are called by the test's goroutine.
type Cluster struct {
	t       testing.TB
	options Options
	members []*member
}

// Options of a cluster; the zero value is plain text without users.
type Options struct {
	TLS       *Files   // clients must use TLS, with a certificate
	Arguments []string // further ones of each server
}

type member struct {
	name, dir    string
	client, peer string // URLs
	process      *exec.Cmd
	output       bytes.Buffer
}

// Timing of the servers, in milliseconds: a leader that is gone is replaced within a second.
const (
	heartbeat = 50
	election  = 500
)

// patience bounds waits that end soon unless something is broken.
const patience = time.Minute

// Start starts n servers, which end with the test. It returns when they have a leader.
func Start(t testing.TB, n int, o Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t, options: o}
	scheme := "http"
	if o.TLS != nil {
		scheme = "https"
	}
	dir := t.TempDir()
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		c.members = append(c.members, &member{name: name, dir: filepath.Join(dir, name), client: scheme + "://" + port(t), peer: "http://" + port(t)})
	}
	for i := range n {
		c.Restart(i)
	}
	t.Cleanup(func() {
		for i := range n {
			c.Kill(i)
		}
		if t.Failed() {
			for _, m := range c.members {
				t.Logf("%s:\n%s", m.name, last(m.output.String()))
			}
		}
	})
	c.Leader()
	return c
}

// port returns an address of the loopback interface that was free a moment ago. Its port is below the ports that the system chooses, so that nobody
// else gets it while a server is started again.
func port(t testing.TB) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000)))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

// Endpoints returns the URLs for clients.
func (c *Cluster) Endpoints() []string {
	var urls []string
	for _, m := range c.members {
		urls = append(urls, m.client)
	}
	return urls
}

// Restart starts a server that was killed, with what it had written before. It does not wait for it.
func (c *Cluster) Restart(i int) {
	c.t.Helper()
	m := c.members[i]
	var all []string
	for _, o := range c.members {
		all = append(all, o.name+"="+o.peer)
	}
	arguments := []string{"--name", m.name, "--data-dir", m.dir, "--listen-client-urls", m.client, "--advertise-client-urls", m.client,
		"--listen-peer-urls", m.peer, "--initial-advertise-peer-urls", m.peer, "--initial-cluster", strings.Join(all, ","),
		"--initial-cluster-token", filepath.Dir(m.dir),
		"--heartbeat-interval", fmt.Sprint(heartbeat), "--election-timeout", fmt.Sprint(election), "--unsafe-no-fsync", "--log-level", "warn"}
	if f := c.options.TLS; f != nil {
		arguments = append(arguments, "--cert-file", f.ServerCertificate, "--key-file", f.ServerKey, "--trusted-ca-file", f.CA, "--client-cert-auth")
	}
	m.process = exec.Command(binary(c.t), append(arguments, c.options.Arguments...)...)
	m.process.Stdout, m.process.Stderr = &m.output, &m.output
	m.process.SysProcAttr = attributes()
	if err := m.process.Start(); err != nil {
		c.t.Fatal(err)
	}
}

// Kill ends a server as kill -9 does, and returns when it is gone. A server that is gone already is left alone.
func (c *Cluster) Kill(i int) {
	m := c.members[i]
	if m.process == nil {
		return
	}
	_ = m.process.Process.Kill()
	_ = m.process.Wait()
	m.process = nil
}

// Wipe removes what a server that was killed had written. A cluster of one has lost all its data then.
func (c *Cluster) Wipe(i int) {
	c.t.Helper()
	if err := os.RemoveAll(c.members[i].dir); err != nil {
		c.t.Fatal(err)
	}
}

// Pause stops a server until Resume.
func (c *Cluster) Pause(i int) { c.signal(i, syscall.SIGSTOP) }

// Resume lets a server that was paused go on.
func (c *Cluster) Resume(i int) { c.signal(i, syscall.SIGCONT) }

func (c *Cluster) signal(i int, s syscall.Signal) {
	c.t.Helper()
	if err := c.members[i].process.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// last returns the end of a server's output.
func last(s string) string { return s[max(0, len(s)-2000):] }

// statusTime bounds the answer of a server that is asked who leads; a server that is paused does not answer.
const statusTime = 2 * time.Second

// Client returns a client of all servers, which ends with the test.
func (c *Cluster) Client() *clientv3.Client {
	c.t.Helper()
	config := clientv3.Config{Endpoints: c.Endpoints(), Logger: zap.NewNop(), DialTimeout: patience}
	if c.options.TLS != nil {
		config.TLS = c.options.TLS.config(c.t)
	}
	client, err := clientv3.New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Leader waits until one of the servers is the leader that all live ones follow, and returns it.
func (c *Cluster) Leader() int {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	client := c.Client()
	defer client.Close()
	for {
		if leader := c.agreed(ctx, client); leader >= 0 {
			return leader
		}
		select {
		case <-ctx.Done():
			c.t.Fatal("no leader")
		case <-time.After(heartbeat * time.Millisecond):
		}
	}
}

func (c *Cluster) agreed(ctx context.Context, client *clientv3.Client) int {
	leader, at := uint64(0), -1
	for i, m := range c.members {
		if m.process == nil {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, statusTime)
		s, err := client.Status(bounded, m.client)
		cancel()
		if err != nil || s.Leader == 0 || leader != 0 && s.Leader != leader {
			return -1
		}
		if leader = s.Leader; leader == s.Header.MemberId {
			at = i
		}
	}
	return at
}

// attributes keep signals of the terminal away from a server: the test ends it.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
