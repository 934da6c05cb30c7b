package remote_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/proto/rpc"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
)

// Jobs share the cores that nodes offer: each trainer is on a node that has one for it, and a job that finds none waits. Nothing starts on a node that is cordoned.
func TestJobsShareNodes(t *testing.T) {
	t.Parallel()
	etcd, err := cluster.Embed(bounded(t), filepath.Join(t.TempDir(), "etcd"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, node := range []string{"left", "right"} {
		listener(t, remote.WithEtcd(etcd.Endpoints()...), remote.WithNode(node), remote.WithResources(1000, 0))
	}
	taker := listener(t, remote.WithEtcd(etcd.Endpoints()...), remote.WithNodes())
	client, err := remote.Dial(bounded(t), taker.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	encoded, err := testkit.Reading(t, 5, optimizer.SGD(0.1)).Program.Encode()
	if err != nil {
		t.Fatal(err)
	}
	submit := func(name string) {
		t.Helper()
		spec := &job.JobSpec{Name: name, Program: encoded, Trainers: 2, Pservers: 2, MinBlockSize: 4} // it runs until it is stopped
		for dataset, globs := range testkit.Samples(t, t.TempDir(), 20) {
			spec.Data = append(spec.Data, &job.DataBinding{Dataset: dataset, Globs: globs, Follow: true})
		}
		if _, err := client.Submit(bounded(t), spec); err != nil {
			t.Fatal(err)
		}
	}
	// reaches waits until the status of a job is as it should be.
	reaches := func(name string, ok func(*job.JobStatus) bool) *job.JobStatus {
		t.Helper()
		ctx := bounded(t)
		for {
			s, err := client.Status(ctx, name)
			if err != nil {
				t.Fatal(err)
			}
			if ok(s) {
				return s
			}
		}
	}
	trains := func(s *job.JobStatus) bool { return s.Records == 20 }
	apart := func(name string) {
		t.Helper()
		nodes := map[string]int{}
		for _, r := range reaches(name, trains).Roles {
			if r.Role == job.Role_TRAINER {
				nodes[r.Node]++
			}
		}
		if nodes["left"] != 1 || nodes["right"] != 1 {
			t.Errorf("trainers of %s by node: %v", name, nodes)
		}
	}
	waits := func(why string) {
		t.Helper()
		reaches("second", func(s *job.JobStatus) bool { return s.State == job.State_WAITING && s.Waiting == why })
	}
	submit("first")
	apart("first")
	submit("second")
	waits("2 cores; free: 0 of 2 cores")
	change := func(do func(context.Context, *remote.Client, string) ([]*rpc.NodeStatus, error), cordoned bool) {
		t.Helper()
		nodes, err := do(bounded(t), client, "left")
		if err != nil || len(nodes) != 2 || nodes[0].Cordoned != cordoned || nodes[0].Has.GetMillicores() != 1000 || nodes[1].Cordoned {
			t.Fatalf("%v, %v", nodes, err)
		}
	}
	change(remote.Cordon, true)
	if err := client.Stop(bounded(t), "first"); err != nil {
		t.Fatal(err)
	}
	waits("2 cores; free: 1 of 1 core")
	change(remote.Uncordon, false)
	apart("second")
	if err := client.Stop(bounded(t), "second"); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.Cordon(bounded(t), client, "middle"); err == nil {
		t.Error("a node that is not there is cordoned")
	}
}
