package etcdtest

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

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
		bounded, cancel := context.WithTimeout(ctx, election*time.Millisecond)
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
