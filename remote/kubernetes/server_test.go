package kubernetes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/kubernetes"
	"github.com/edl-go/edl/remote/launch"
)

// A server has as much of the API server, of its controllers and of a kubelet as one launcher needs: for tests of its calls, its watch and its ways out, which must not need a control
// plane. What a cluster accepts and does is tested by TestCluster.
type server struct {
	t     *testing.T
	work  func(ctx context.Context, spec *job.RoleSpec, log io.Writer) error // of the role of each pod; nil: pods do not run
	state func(p *corev1.Pod)                                                // of pods that do not run
	dir   string                                                             // of the files of pods

	mu       sync.Mutex
	group    sync.WaitGroup
	refusal  *metav1.Status // of all calls that make something
	away     int            // so many deletions of Jobs are not answered
	deleted  chan string    // names of Jobs, for who waits for one
	version  int
	jobs     map[string]*batchv1.Job
	owned    map[string]map[string]map[string][]byte // by resource and name
	pods     map[string]*corev1.Pod
	begun    int // pods that were made to run
	budgets  []*policyv1.PodDisruptionBudget
	least    []int                         // what budgets were changed to
	ends     map[string]context.CancelFunc // of pods that run
	warning  *corev1.Event
	watchers map[chan metav1.WatchEvent]bool
}

func newServer(t *testing.T) (*server, *httptest.Server) {
	s := &server{t: t, dir: t.TempDir(), jobs: map[string]*batchv1.Job{}, owned: map[string]map[string]map[string][]byte{"configmaps": {}, "secrets": {}}, pods: map[string]*corev1.Pod{}, ends: map[string]context.CancelFunc{},
		watchers: map[chan metav1.WatchEvent]bool{}, deleted: make(chan string, 1)}
	h := httptest.NewServer(s)
	t.Cleanup(func() { // before the files of pods are removed, which write until they have ended
		h.CloseClientConnections()
		h.Close()
		s.group.Wait()
	})
	return s, h
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("watch") == "true" {
		s.watch(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := strings.Split(r.URL.Path[strings.Index(r.URL.Path, "/namespaces/"):]+"/", "/") // "" namespaces NS RESOURCE NAME
	resource, name := parts[3], parts[4]
	selector := r.URL.Query().Get("labelSelector")
	answer := func(code int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(v)
	}
	status := func(code int, reason metav1.StatusReason) {
		answer(code, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: reason})
	}
	switch {
	case r.Method == http.MethodPost && s.refusal != nil:
		answer(int(s.refusal.Code), s.refusal)
	case resource == "poddisruptionbudgets" && r.Method == http.MethodPost:
		b := &policyv1.PodDisruptionBudget{}
		s.decode(r, b)
		s.budgets = append(s.budgets, b)
		answer(http.StatusCreated, b)
	case resource == "poddisruptionbudgets" && r.Method == http.MethodPatch:
		for _, b := range s.budgets {
			if b.Name == name {
				s.decode(r, b)
				s.least = append(s.least, b.Spec.MinAvailable.IntValue())
				answer(http.StatusOK, b)
				return
			}
		}
		status(http.StatusNotFound, metav1.StatusReasonNotFound)
	case resource == "poddisruptionbudgets" && r.Method == http.MethodDelete:
		s.budgets = slices.DeleteFunc(s.budgets, func(b *policyv1.PodDisruptionBudget) bool { return s.selects(selector, b.Labels) })
		status(http.StatusOK, "")
	case r.Method == http.MethodPost && resource == "jobs":
		j := &batchv1.Job{}
		s.decode(r, j)
		if s.jobs[j.Name] != nil {
			status(http.StatusConflict, metav1.StatusReasonAlreadyExists)
			return
		}
		j.UID = types.UID("uid-" + j.Name)
		s.jobs[j.Name] = j
		answer(http.StatusCreated, j)
	case r.Method == http.MethodPost:
		o := &struct {
			metav1.ObjectMeta `json:"metadata"`
			BinaryData, Data  map[string][]byte
		}{}
		s.decode(r, o)
		if s.owned[resource][o.Name] != nil {
			status(http.StatusConflict, metav1.StatusReasonAlreadyExists)
			return
		}
		if len(o.OwnerReferences) != 1 || o.OwnerReferences[0].UID != s.jobs[o.Name].UID {
			s.t.Errorf("%s %s has the owners %v", resource, o.Name, o.OwnerReferences)
		}
		s.owned[resource][o.Name] = map[bool]map[string][]byte{true: o.BinaryData, false: o.Data}[resource == "configmaps"]
		if resource == "secrets" && (s.work != nil || s.state != nil) { // the last of the three
			s.begin(s.jobs[o.Name])
		}
		answer(http.StatusCreated, o)
	case r.Method == http.MethodGet && resource == "jobs" && name != "" && s.jobs[name] != nil:
		answer(http.StatusOK, s.jobs[name])
	case r.Method == http.MethodGet && resource == "jobs" && name == "":
		list := &batchv1.JobList{TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "JobList"}}
		for _, j := range s.jobs {
			if s.selects(selector, j.Labels) {
				list.Items = append(list.Items, *j)
			}
		}
		answer(http.StatusOK, list)
	case r.Method == http.MethodGet && resource == "pods":
		list := &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: fmt.Sprint(s.version)}}
		for _, p := range s.pods {
			list.Items = append(list.Items, *p)
		}
		answer(http.StatusOK, list)
	case r.Method == http.MethodGet && resource == "events":
		list := &corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}}
		if s.warning != nil {
			list.Items = append(list.Items, *s.warning)
		}
		answer(http.StatusOK, list)
	case r.Method == http.MethodPatch && resource == "secrets" && s.owned[resource][name] != nil:
		patch := &struct{ Data map[string][]byte }{}
		s.decode(r, patch)
		maps.Copy(s.owned[resource][name], patch.Data)
		answer(http.StatusOK, &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}})
	case r.Method == http.MethodDelete && resource == "pods":
		s.endPod(strings.TrimPrefix(selector, kubernetes.LabelObject+"="))
		status(http.StatusOK, "")
	case r.Method == http.MethodDelete && resource == "jobs" && s.away > 0:
		s.away--
		status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable)
	case r.Method == http.MethodDelete && resource == "jobs" && s.jobs[name] != nil:
		defer func() {
			select {
			case s.deleted <- name:
			default:
			}
		}()
		delete(s.jobs, name)
		delete(s.owned["configmaps"], name)
		delete(s.owned["secrets"], name)
		s.endPod(name)
		status(http.StatusOK, "")
	default:
		status(http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// selects reports whether labels are those of a selector.
func (s *server) selects(selector string, of map[string]string) bool {
	want, err := labels.Parse(selector)
	if err != nil {
		s.t.Error(err)
		return false
	}
	return want.Matches(labels.Set(of))
}

func (s *server) decode(r *http.Request, to any) {
	if err := json.NewDecoder(r.Body).Decode(to); err != nil {
		s.t.Error(err)
	}
}

// begin makes the pod of a Job, and runs it. s.mu is held.
func (s *server) begin(j *batchv1.Job) {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: j.Spec.Template.ObjectMeta, Spec: j.Spec.Template.Spec}
	p.Name, p.UID, p.Status.Phase = j.Name+"-x", "uid-of-pod", corev1.PodPending
	s.pods[j.Name] = p
	if s.state != nil {
		s.state(p)
	}
	s.changed("ADDED", p)
	if s.work == nil {
		return
	}
	dir := filepath.Join(s.dir, j.Name)
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Error(err)
	}
	for _, files := range s.owned {
		for name, b := range files[j.Name] {
			write(s.t, filepath.Join(dir, name), b)
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	s.ends[j.Name] = func() { cancel(fault.New(fault.Drained, "terminated")) }
	s.begun++ // an address of its own: the pod before may still have its port
	pod := kubernetes.Pod{Address: fmt.Sprintf("127.%d.%d.%d", 79+s.begun%100, os.Getpid()%251+1, len(s.t.Name())), SpecDir: dir, SecretDir: dir, Termination: filepath.Join(dir, "word"), Log: io.Discard, Launcher: launch.Goroutines(s.work)}
	s.tell(j.Name, func(p *corev1.Pod) {
		p.Status.Phase, p.Status.PodIP = corev1.PodRunning, pod.Address
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "edl", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	})
	s.group.Go(func() {
		err := kubernetes.Run(ctx, pod, slog.New(slog.DiscardHandler))
		word, _ := os.ReadFile(pod.Termination) // none of a role that has ended well
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tell(j.Name, func(p *corev1.Pod) {
			finish(p, int32(fault.KindOf(err).ExitCode()), "Error")
			p.Status.ContainerStatuses[0].State.Terminated.Message = string(word)
		})
	})
}

// finish is the end of the container of a pod.
func finish(p *corev1.Pod, code int32, reason string) {
	p.Status.Phase = corev1.PodFailed
	if code == 0 {
		p.Status.Phase = corev1.PodSucceeded
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "edl", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}}
}

// tell changes a pod that is there. s.mu is held.
func (s *server) tell(name string, change func(p *corev1.Pod)) {
	if p := s.pods[name]; p != nil {
		p = p.DeepCopy()
		change(p)
		s.pods[name] = p
		s.changed("MODIFIED", p)
	}
}

// endPod deletes a pod. s.mu is held.
func (s *server) endPod(name string) {
	if end := s.ends[name]; end != nil {
		end()
	}
	if p := s.pods[name]; p != nil {
		delete(s.pods, name)
		s.changed("DELETED", p)
	}
}

// changed tells those who watch. s.mu is held.
func (s *server) changed(kind string, p *corev1.Pod) {
	s.version++
	p.ResourceVersion = fmt.Sprint(s.version)
	b, err := json.Marshal(p)
	if err != nil {
		s.t.Error(err)
	}
	e := metav1.WatchEvent{Type: kind}
	e.Object.Raw = b
	for c := range s.watchers {
		c <- e
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request) {
	c := make(chan metav1.WatchEvent, 100)
	s.mu.Lock()
	if r.URL.Query().Get("resourceVersion") != fmt.Sprint(s.version) { // something has changed since: the client lists again
		s.mu.Unlock()
		return
	}
	s.watchers[c] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, c)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	for {
		select {
		case e := <-c:
			_ = json.NewEncoder(w).Encode(e)
			_ = http.NewResponseController(w).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

// left says what is left of all objects.
func (s *server) left() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.jobs)+len(s.owned["configmaps"])+len(s.owned["secrets"])+len(s.pods)+len(s.budgets) == 0 {
		return ""
	}
	return fmt.Sprint(len(s.jobs), " Jobs, ", len(s.owned["configmaps"]), " ConfigMaps, ", len(s.owned["secrets"]), " Secrets, ", len(s.pods), " pods, ", len(s.budgets), " budgets")
}

// fail is what the Job controller writes of a Job whose pod has failed.
func fail(j *batchv1.Job, reason, message string) {
	j.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: reason, Message: message}}
}
