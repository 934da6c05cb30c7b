package operator

import (
	"cmp"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/remote/jobspec"
)

// Names of the resource.
const (
	Group    = "edl-go.github.io"
	Version  = "v1alpha1"
	Kind     = "TrainingJob"
	Resource = "trainingjobs"

	// Finalizer keeps a TrainingJob until its job has ended.
	Finalizer = Group + "/job"
	// LabelUID is the label of a job with the uid of its TrainingJob.
	LabelUID = Group + "/uid"
	// QueueLabel is the label of Kueue: a TrainingJob that has it begins suspended.
	QueueLabel = "kueue.x-k8s.io/queue-name"
)

var groupVersion = schema.GroupVersion{Group: Group, Version: Version}

// A TrainingJob is a job as a resource.
type TrainingJob struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              Spec   `json:"spec"`
	Status            Status `json:"status"`
}

// A Spec is what a user wants: a job file, with the fields below beside its own.
type Spec struct {
	// Replicas is how many trainers an elastic job is to have, within its bounds; 0: as many as there is room for.
	Replicas int32 `json:"replicas"`
	// Suspend lets the job make a checkpoint, end its pods, and wait.
	Suspend bool `json:"suspend"`
	// TTLSecondsAfterFinished is how long the resource is kept when its job has ended; nil: until somebody deletes it.
	TTLSecondsAfterFinished *int32 `json:"ttlSecondsAfterFinished"`
	// ProgramFrom names a ConfigMap with the program, in place of a file.
	ProgramFrom *ConfigMapKey `json:"programFrom"`
	// File has the other fields, those of the job file, as JSON.
	File json.RawMessage `json:"-"`
}

// A ConfigMapKey is an entry of a ConfigMap, of the namespace of who names it.
type ConfigMapKey struct {
	ConfigMap string `json:"configMap"`
	Key       string `json:"key"`
}

// ownFields are the fields of a Spec that no job file has.
var ownFields = []string{"replicas", "suspend", "ttlSecondsAfterFinished", "programFrom"}

// UnmarshalJSON takes the fields of the job file apart from the others.
func (s *Spec) UnmarshalJSON(b []byte) error {
	type plain Spec
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	for _, name := range ownFields {
		delete(fields, name)
	}
	var err error
	s.File, err = json.Marshal(fields)
	return err
}

// MarshalJSON is the inverse of UnmarshalJSON.
func (s Spec) MarshalJSON() ([]byte, error) {
	fields := map[string]any{}
	if len(s.File) > 0 {
		if err := json.Unmarshal(s.File, &fields); err != nil {
			return nil, err
		}
	}
	own := map[string]any{"replicas": s.Replicas, "suspend": s.Suspend}
	if s.TTLSecondsAfterFinished != nil {
		own["ttlSecondsAfterFinished"] = *s.TTLSecondsAfterFinished
	}
	if s.ProgramFrom != nil {
		own["programFrom"] = s.ProgramFrom
	}
	maps.Copy(fields, own)
	return json.Marshal(fields)
}

// Job reads the job file of a TrainingJob. The job has the name of the resource, and labels by which it is found.
func (t *TrainingJob) Job() (*jobspec.File, error) {
	where := Kind + " " + t.Name
	f, err := jobspec.Parse(where, t.Spec.File)
	if err != nil {
		return nil, err
	}
	switch {
	case !jobspec.IsName(t.Name):
		err = fault.E(fault.InvalidArgument, fault.At(where), fault.Got("its name"), fault.Want("up to 63 lower-case letters, digits and '-', and no name of EDL itself"))
	case f.Spec.Name != "":
		err = fault.E(fault.InvalidArgument, fault.At(where), fault.Got("spec.name"), fault.Want("the name of the resource"))
	case f.Spec.Namespace != "":
		err = fault.E(fault.InvalidArgument, fault.At(where), fault.Got("spec.namespace"), fault.Want("the namespace of the resource"))
	case t.UID == "":
		err = fault.E(fault.InvalidArgument, fault.At(where), fault.Got("no uid"), fault.Want("a resource of an API server"))
	case (f.Program == "") == (t.Spec.ProgramFrom == nil):
		err = fault.E(fault.InvalidArgument, fault.At(where), fault.Got("both a program and programFrom, or neither"), fault.Want("one of them"))
	}
	if err != nil {
		return nil, err
	}
	f.Spec.Name, f.Spec.Queue = t.Name, "" // a queue admits the resource
	labels := map[string]string{LabelUID: string(t.UID)}
	maps.Copy(labels, f.Spec.Labels)
	labels[LabelUID] = string(t.UID)
	f.Spec.Labels = labels
	return f, nil
}

// queue names the queue that admits a TrainingJob; empty: none does.
func (t *TrainingJob) queue() string {
	var named struct {
		Queue string `json:"queue"`
	}
	_ = json.Unmarshal(t.Spec.File, &named) // Job says what is wrong with it
	return cmp.Or(t.Labels[QueueLabel], named.Queue)
}

// A Status is how far the job of a TrainingJob is. Fields without a value are null, so that a patch removes them.
type Status struct {
	State              string             `json:"state,omitempty"` // one word: that of edl jobs, or of the last condition
	Conditions         []metav1.Condition `json:"conditions"`
	ObservedGeneration int64              `json:"observedGeneration"`
	Job                string             `json:"job"`      // of the listener; another name than that of the resource when it was resumed after a failure of the listener
	Trainers           int32              `json:"trainers"` // that run
	Asked              int32              `json:"asked"`    // spec.replicas as the listener was told last
	Steps              int64              `json:"steps"`
	Records            int64              `json:"records"`
	Progress           *int32             `json:"progress"`   // percent of the records of all passes; nil: not known
	TimeLeft           *string            `json:"timeLeft"`   // such as 1m20s; nil: not known
	Loss               *string            `json:"loss"`       // of the last step that was heard of
	Message            *string            `json:"message"`    // what the job waits for, or why it has failed
	Refused            *string            `json:"refused"`    // why what the spec says last could not be done; nil: it could, or was not tried yet
	Checkpoint         *string            `json:"checkpoint"` // the last one, as STORE@STEPS; nil: there is none
	Waits              []Wait             `json:"waits"`      // of its roles, as the listener knows them; the root of the matter first
	StartTime          *metav1.Time       `json:"startTime"`  // when the listener has taken the job
	CompletionTime     *metav1.Time       `json:"completionTime"`
	UpdateTime         *metav1.Time       `json:"updateTime"` // of this status
}

// CheckpointSteps is how many steps the last checkpoint has; 0: there is none.
func (s *Status) CheckpointSteps() int64 {
	if s.Checkpoint == nil {
		return 0
	}
	steps, _ := strconv.ParseInt((*s.Checkpoint)[strings.LastIndexByte(*s.Checkpoint, '@')+1:], 10, 64) // as jobOf writes it
	return steps
}

// A Wait says what a role of a job waits for, as edl why does.
type Wait struct {
	Who       string       `json:"who"`
	What      string       `json:"what"`
	By        []string     `json:"by,omitempty"` // who is waited for
	Since     *metav1.Time `json:"since,omitempty"`
	LastError string       `json:"lastError,omitempty"` // of the last attempt to end the wait, or the words of the cluster
}

// DeepCopyObject copies a TrainingJob. What is behind its pointers is never changed, so they are shared.
func (t *TrainingJob) DeepCopyObject() runtime.Object {
	c := *t
	t.ObjectMeta.DeepCopyInto(&c.ObjectMeta)
	c.Status.Conditions = append([]metav1.Condition(nil), t.Status.Conditions...)
	return &c
}

// A List is what the API server returns of many.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []TrainingJob `json:"items"`
}

// DeepCopyObject copies a list.
func (l *List) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = make([]TrainingJob, len(l.Items))
	for i := range l.Items {
		c.Items[i] = *l.Items[i].DeepCopyObject().(*TrainingJob)
	}
	return &c
}

// nameOf is the name of a resource that an informer calls NAMESPACE/NAME.
func nameOf(key string) string {
	_, name, _ := strings.Cut(key, "/")
	return name
}
