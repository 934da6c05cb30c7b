package kubernetes

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/edl-go/edl/proto/job"
)

// serverRoles are those whose loss costs a job more than a round.
var serverRoles = []job.Role{job.Role_COORDINATOR, job.Role_PSERVER, job.Role_STANDBY}

// budgetOf lets drains of nodes take one pod of the servers of a job at a time. They are counted when the job begins: Kubernetes takes no other bound for pods whose owner has no number of
// replicas.
func budgetOf(s Settings, spec *job.RoleSpec) *policyv1.PodDisruptionBudget {
	run := runLabel(spec.CheckpointRun)
	var roles []string
	for _, r := range serverRoles {
		roles = append(roles, roleName(r))
	}
	least := intstr.FromInt32(spec.GetSpec().GetPservers() * (1 + spec.GetSpec().GetStandby())) // the coordinator, too, but for one
	return &policyv1.PodDisruptionBudget{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
		ObjectMeta: metav1.ObjectMeta{Name: "edl-" + run, Namespace: s.Namespace, Labels: map[string]string{labelManagedBy: "edl", LabelListener: s.Name, LabelJob: spec.Job, LabelRun: run}},
		Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &least, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{LabelRun: run},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: LabelRole, Operator: metav1.LabelSelectorOpIn, Values: roles}}}}}
}

// makeBudget makes the budget of a run, or finds it.
func (a *api) makeBudget(ctx context.Context, where string, b *policyv1.PodDisruptionBudget) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	err := a.policy.Post().Namespace(a.namespace).Resource("poddisruptionbudgets").Body(b).Do(ctx).Error()
	if apierrors.IsAlreadyExists(err) {
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
