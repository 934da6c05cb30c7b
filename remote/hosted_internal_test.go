package remote

import (
	"slices"
	"testing"

	"github.com/edl-go/edl/proto/job"
)

// A role that another listener sends to a node finds the others in the etcd of the node and below the prefix of its job, whatever its sender names. Else the node would show its password to an etcd of
// the sender's choice, and a role would reach keys of another job.
func TestNodeChoosesTheEtcdOfARole(t *testing.T) {
	node := hosted{host: "10.0.0.7", etcd: []string{"https://etcd:2379"}}
	sent := &job.RoleSpec{Job: "digits", Etcd: []string{"http://elsewhere:2379"}, Prefix: "/edl/other", RunDir: "/tmp/theirs", Advertise: "10.0.0.1", Spec: &job.JobSpec{}}
	got, err := node.change(sent)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Etcd, node.etcd) || got.Prefix != "/edl/digits" || got.RunDir != "" || got.Advertise != "10.0.0.7" {
		t.Errorf("the role gets %v, %q, %q, %q", got.Etcd, got.Prefix, got.RunDir, got.Advertise)
	}
	if sent.Prefix != "/edl/other" {
		t.Error("the message of the sender has changed")
	}
}
