package kubernetes

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/cluster"
	"github.com/edl-go/edl/remote/launch"
)

// Labels of all objects of a role.
const (
	labelDomain    = "edl-go.github.io/"
	LabelListener  = labelDomain + "listener" // Settings.Name
	LabelJob       = labelDomain + "job"      // id of the job
	LabelRole      = labelDomain + "role"     // coordinator, pserver, standby or trainer
	LabelIndex     = labelDomain + "index"    // rank of a trainer, index of a pserver or of the one that a standby follows
	LabelStart     = labelDomain + "start"    // how often the role was started before
	LabelRun       = labelDomain + "run"      // of the job: another job of its name has another
	LabelObject    = labelDomain + "object"   // name of the objects; each pod of the Job has it, too
	labelManagedBy = "app.kubernetes.io/managed-by"
)

// annotationPlanned is an annotation of pods: the least memory that the role can take, as it follows from its program.
const annotationPlanned = labelDomain + "planned-memory"

// Names of what the objects hold.
const (
	specKey        = "role.pb.gz" // a job.RoleSpec without credentials
	credentialsKey = "credentials"
	etcdKey        = "etcd-credentials"
)

// maxSpec is how many compressed bytes of a RoleSpec go into a ConfigMap. An object may have a MiB, and binary data travels as base64.
const maxSpec = 700 << 10

// keptJob is how long Kubernetes keeps a Job that has ended, and that no listener has deleted, in seconds.
const keptJob = 24 * 3600

// Objects are what one start of a role takes. The Job is the owner of the others.
type Objects struct {
	Job       *batchv1.Job
	ConfigMap *corev1.ConfigMap
	Secret    *corev1.Secret
}

// NewObjects makes the objects of a role. It is a pure function: the same settings and spec give the same objects.
func NewObjects(s Settings, spec *job.RoleSpec) (*Objects, error) {
	name, labels := objectOf(spec), labelsOf(s, spec)
	meta := metav1.ObjectMeta{Name: name, Namespace: s.Namespace, Labels: labels}
	pod, err := podOf(s, spec, name, labels)
	if err != nil {
		return nil, err
	}
	packed, err := pack(spec)
	if err != nil {
		return nil, err
	}
	o := &Objects{
		ConfigMap: &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: meta, BinaryData: map[string][]byte{specKey: packed}},
		Secret: &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta,
			Data: map[string][]byte{credentialsKey: spec.Credentials, etcdKey: spec.EtcdCredentials}},
	}
	maps.Copy(o.Secret.Data, s.Etcd)
	one, none, keep := int32(1), int32(0), int32(keptJob)
	replace := batchv1.Failed
	o.Job = &batchv1.Job{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"}, ObjectMeta: meta, Spec: batchv1.JobSpec{
		Parallelism: &one, Completions: &one, BackoffLimit: &none, TTLSecondsAfterFinished: &keep, PodReplacementPolicy: &replace,
		PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{Action: batchv1.PodFailurePolicyActionFailJob,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{ContainerName: proto.String(container), Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: permanentExits()}}}},
		Template: pod}}
	return o, nil
}

// permanentExits are the exit codes after which no further start of a role helps.
func permanentExits() []int32 {
	return []int32{int32(fault.InvalidArgument.ExitCode()), int32(fault.VerifyFailed.ExitCode())}
}

// own makes the Job the owner of the other objects.
func (o *Objects) own(uid types.UID) {
	yes := true
	owner := []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: o.Job.Name, UID: uid, Controller: &yes, BlockOwnerDeletion: &yes}}
	o.ConfigMap.OwnerReferences, o.Secret.OwnerReferences = owner, owner
}

// YAML writes the objects as kubectl reads them. Credentials are left out.
func (o *Objects) YAML() ([]byte, error) {
	secret := o.Secret.DeepCopy()
	secret.Data = nil
	var all [][]byte
	for _, object := range []any{o.Job, o.ConfigMap, secret} {
		b, err := yaml.Marshal(object)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, o.Job.Name, err)
		}
		all = append(all, b)
	}
	return bytes.Join(all, []byte("---\n")), nil
}

// Manifests writes the objects that a listener makes for the roles of a job, as kubectl reads them. specs are those of all roles at their first start. Credentials are left out. With lasting,
// jobs outlive the listener.
func Manifests(s Settings, specs []*job.RoleSpec, lasting bool) ([]byte, error) {
	var all [][]byte
	for _, spec := range specs {
		o, err := NewObjects(s, spec)
		if err != nil {
			return nil, err
		}
		b, err := o.YAML()
		if err != nil {
			return nil, err
		}
		all = append(all, b)
		if lasting && spec.Role == job.Role_COORDINATOR {
			if b, err = yaml.Marshal(budgetOf(s, spec, len(serversOf(spec)))); err != nil {
				return nil, fault.Wrap(fault.Internal, spec.Job, err)
			}
			all = append(all, b)
		}
	}
	return bytes.Join(all, []byte("---\n")), nil
}

// memberOf is which role of its job a spec starts.
func memberOf(spec *job.RoleSpec) cluster.Member {
	return cluster.Member{Role: spec.Role, Index: int(spec.Index)}
}

// objectOf names the objects of a start. Another start, or a job of the same id, has another name. It has at most 57 letters, so that names of pods, which are longer, are
// labels, too.
func objectOf(spec *job.RoleSpec) string {
	const most = 20 // letters of the id of the job, which the label has in full
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s %d", spec.Job, spec.CheckpointRun, memberOf(spec).ID(), spec.Start))
	id := strings.Trim(spec.Job[:min(len(spec.Job), most)], "-")
	return fmt.Sprintf("edl-%s-%s-%s", id, memberOf(spec).ID(), hex.EncodeToString(sum[:5]))
}

func labelsOf(s Settings, spec *job.RoleSpec) map[string]string {
	return map[string]string{"app.kubernetes.io/name": "edl", labelManagedBy: "edl", LabelListener: s.Name, LabelJob: spec.Job, LabelRun: launch.RunLabel(spec.CheckpointRun), LabelRole: roleOf(spec),
		LabelIndex: strconv.Itoa(int(spec.Index)), LabelStart: strconv.Itoa(int(spec.Start)), LabelObject: objectOf(spec)}
}

func roleOf(spec *job.RoleSpec) string { return roleName(spec.Role) }

func roleName(r job.Role) string { return strings.ToLower(r.String()) }

// pack compresses a spec without its credentials; one that does not fit into an object has no program either: the listener sends it.
func pack(spec *job.RoleSpec) ([]byte, error) {
	m := proto.CloneOf(spec)
	m.Credentials, m.EtcdCredentials = nil, nil
	b, err := compressed(m)
	if err == nil && len(b) > maxSpec {
		b = nil
	}
	return b, err
}

func compressed(m proto.Message) ([]byte, error) {
	plain, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return nil, fault.Wrap(fault.InvalidArgument, specKey, err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(plain)
	if err = firstOf(err, w.Close()); err != nil {
		return nil, fault.Wrap(fault.Internal, specKey, err)
	}
	return b.Bytes(), nil
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// unpack is the inverse of pack: nil for a spec that the listener sends.
func unpack(b []byte) (*job.RoleSpec, error) {
	if len(b) == 0 {
		return nil, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, fault.Wrap(fault.Corrupt, specKey, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, launch.MaxSpec+1))
	if err != nil {
		return nil, fault.Wrap(fault.Corrupt, specKey, err)
	}
	if len(plain) > launch.MaxSpec {
		return nil, fault.E(fault.TooLarge, fault.At(specKey), fault.Wantf("at most %d bytes", launch.MaxSpec))
	}
	spec := &job.RoleSpec{}
	return spec, fault.Wrap(fault.Corrupt, specKey, proto.Unmarshal(plain, spec))
}
