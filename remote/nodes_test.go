package remote_test

import (
	"path/filepath"
	"testing"

	"github.com/edl-go/edl/executor"
	"github.com/edl-go/edl/internal/testkit"
	"github.com/edl-go/edl/optimizer"
	"github.com/edl-go/edl/remote"
	"github.com/edl-go/edl/remote/cluster"
)

// Listeners that joined one etcd cluster share the roles of a job, which one of them was sent.
func TestJobOnTheNodesOfACluster(t *testing.T) {
	t.Parallel()
	etcd, err := cluster.Embed(bounded(t), filepath.Join(t.TempDir(), "etcd"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := etcd.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, node := range []string{"left", "right"} {
		listener(t, remote.WithEtcd(etcd.Endpoints()...), remote.WithNode(node))
	}
	taker := listener(t, remote.WithEtcd(etcd.Endpoints()...), remote.WithNodes())

	m := testkit.Reading(t, 8, optimizer.Momentum(0.05, 0.9))
	run := executor.TrainOptions{Data: testkit.Samples(t, t.TempDir(), 30), Save: t.TempDir()}
	spec := &remote.JobSpec{Trainers: 2, Pservers: 2, MinBlockSize: 4}
	_, status := trainOn(t, executorOf(t, taker, spec), m, run, nil)
	mustEqualReference(t, m, spec.Trainers, run)
	roles := map[string]int{}
	for _, r := range status.Roles {
		roles[r.Node]++
	}
	if roles["left"] < 2 || roles["right"] < 2 || roles["left"]+roles["right"] != 5 {
		t.Errorf("roles by node: %v, want 5 shared by left and right", roles)
	}
}
