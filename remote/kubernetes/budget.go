package kubernetes

import (
	"context"
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
)

// serverRoles are those whose loss costs a job more than a round.
var serverRoles = []job.Role{job.Role_COORDINATOR, job.Role_PSERVER, job.Role_STANDBY}

// serversOf are the servers of a job when its coordinator starts.
func serversOf(spec *job.RoleSpec) map[cluster.Member]bool {
	all := map[cluster.Member]bool{memberOf(spec): true}
	for i := range int(spec.GetSpec().GetPservers()) {
		all[cluster.Member{Role: job.Role_PSERVER, Index: i}] = true
		if spec.GetSpec().GetStandby() > 0 {
			all[cluster.Member{Role: job.Role_STANDBY, Index: i}] = true
		}
	}
	return all
}

// budgetOf lets drains of nodes take one pod of the servers of a job at a time. Their number is that of the job now: Kubernetes takes no other bound for pods whose owner has no number of
// replicas.
func budgetOf(s Settings, spec *job.RoleSpec, servers int) *policyv1.PodDisruptionBudget {
	run := launch.RunLabel(spec.CheckpointRun)
	var roles []string
	for _, r := range serverRoles {
		roles = append(roles, roleName(r))
	}
	least := intstr.FromInt32(int32(servers - 1))
	return &policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: "edl-" + run, Namespace: s.Namespace, Labels: map[string]string{labelManagedBy: "edl", LabelListener: s.Name, LabelJob: spec.Job, LabelRun: run}},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelRun: run},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: LabelRole, Operator: metav1.LabelSelectorOpIn, Values: roles}}}}}
}

// serves counts a server of a job that starts, or that has ended and has no next start, and brings the budget of the job up to that. What the API server does not answer is done later.
func (l *Launcher) serves(ctx context.Context, where string, spec *job.RoleSpec, starts bool) error {
	if l.settings.Keep == "" || !slices.Contains(serverRoles, spec.Role) {
		return nil
	}
	begins := starts && spec.Role == job.Role_COORDINATOR
	l.mu.Lock()
	servers := l.servers[spec.CheckpointRun]
	if begins {
		servers = serversOf(spec)
		l.servers[spec.CheckpointRun] = servers
	}
	before := len(servers)
	if servers != nil && starts {
		servers[memberOf(spec)] = true
	} else if servers[cluster.Member{Role: job.Role_COORDINATOR}] { // when that has ended, the job has
		delete(servers, memberOf(spec))
	}
	after := len(servers)
	l.mu.Unlock()
	switch {
	case begins:
		return l.api.makeBudget(ctx, where, budgetOf(l.settings, spec, after))
	case after == before || after == 0:
		return nil
	}
	return l.insist(where, func(ctx context.Context) error {
		l.budgets.Lock()
		defer l.budgets.Unlock()
		l.mu.Lock()
		now := len(l.servers[spec.CheckpointRun])
		l.mu.Unlock()
		if now == 0 { // the run was released
			return nil
		}
		return l.api.changeBudget(ctx, where, budgetOf(l.settings, spec, now))
	})
}

// makeBudget makes the budget of a run, or finds it, and brings it up to date.
func (a *api) makeBudget(ctx context.Context, where string, b *policyv1.PodDisruptionBudget) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := a.policy.Post().Namespace(a.namespace).Resource("poddisruptionbudgets").Body(b).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
		return a.changeBudget(ctx, where, b)
	}
	return refused(where, err)
}

// changeBudget gives the budget of a run another number. One that is gone was deleted with its run.
func (a *api) changeBudget(ctx context.Context, where string, b *policyv1.PodDisruptionBudget) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	patch := fmt.Appendf(nil, `{"spec": {"minAvailable": %d}}`, b.Spec.MinAvailable.IntValue())
	err := a.policy.Patch(types.MergePatchType).Namespace(a.namespace).Resource("poddisruptionbudgets").Name(b.Name).Body(patch).Do(ctx).Error()
	if apierrors.IsNotFound(err) {
		return nil
	}
	return refused(where, err)
}

// removeBudgets deletes the budgets of a selector.
func (a *api) removeBudgets(ctx context.Context, selector string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	return refused("budgets of "+selector, a.policy.Delete().Namespace(a.namespace).Resource("poddisruptionbudgets").
		VersionedParams(&metav1.ListOptions{LabelSelector: selector}, metav1.ParameterCodec).Body(&metav1.DeleteOptions{}).Do(ctx).Error())
}
