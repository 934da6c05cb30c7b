package main

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/strvals"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// objects reads documents by kind and name.
func objects(t *testing.T, documents []string) map[string]map[string]any {
	t.Helper()
	all := map[string]map[string]any{}
	for _, d := range documents {
		o := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(d), &o); err != nil {
			t.Fatalf("%v:\n%s", err, d)
		}
		name := fmt.Sprint(o["kind"], " ", o["metadata"].(map[string]any)["name"])
		if all[name] != nil {
			t.Errorf("two objects %s", name)
		}
		all[name] = o
	}
	return all
}

// rendered renders the chart.
func rendered(t *testing.T, values string) map[string]map[string]any {
	t.Helper()
	documents, err := renderWith(values)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, documents)
}

func renderWith(values string) ([]string, error) {
	v := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &v); err != nil {
		return nil, err
	}
	return render(v, "edl")
}

// What kustomize makes of the base is what helm makes of the chart, object by object.
func TestKustomizeIsTheChart(t *testing.T) {
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), baseDir)
	if err != nil {
		t.Fatal(err)
	}
	var documents []string
	for _, r := range m.Resources() {
		b, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, string(b))
	}
	got, want := objects(t, documents), rendered(t, "etcd: {secret: edl-etcd}")
	if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
		t.Fatalf("kustomize makes %v, and helm %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for name := range want {
		if !reflect.DeepEqual(got[name], want[name]) {
			t.Errorf("%s differs: kustomize makes\n%v\nand helm\n%v", name, got[name], want[name])
		}
	}
	if err := run(true); err != nil {
		t.Error(err)
	}
}

// Values reach the objects that they are for.
func TestValues(t *testing.T) {
	for _, c := range []struct {
		name, values, object, want string
		not                        bool // the object does not have it
	}{
		{"digest", "image: {repository: reg/edl, digest: 'sha256:" + strings.Repeat("a", 64) + "'}", "Deployment edl", "--image=reg/edl@sha256:aaaa", false},
		{"own etcd", "", "Deployment edl", "--etcd=https://edl-etcd-0.edl-etcd:2379", false},
		{"own etcd has a certificate", "", "Secret edl-etcd", "tls.key", false},
		{"three members", "etcd: {replicas: 3}", "StatefulSet edl-etcd", "edl-etcd-2=https://edl-etcd-2.edl-etcd:2380", false},
		{"three members lose one", "etcd: {replicas: 3}", "PodDisruptionBudget edl-etcd", "maxUnavailable: 1", false},
		{"given etcd", "etcd: {endpoints: ['https://a:2379', 'https://b:2379'], secret: mine}", "Deployment edl", "--etcd=https://a:2379,https://b:2379", false},
		{"its secret", "etcd: {endpoints: ['https://a:2379'], secret: mine}", "Deployment edl", "secretName: mine", false},
		{"etcd without certificates", "etcd: {endpoints: ['http://127.0.0.1:2379']}", "Deployment edl", "EDL_ETCD_CA", true},
		{"claim", "data: {create: true, storageClass: shared}", "PersistentVolumeClaim data", "storageClassName: shared", false},
		{"bucket", "data: {read: ['s3://records/a']}", "Deployment edl", "--allow-data=s3://records/a", false},
		{"claim to be read", "", "Deployment edl", "- --allow-data=/data\n", false},
		{"roles", "roles: {nodeSelector: {pool: cpu}, tolerations: [{key: spot}], serviceAccount: reader, env: [{name: A, value: b}]}", "ConfigMap edl-pods", "pool: cpu", false},
		{"folder of the listener", "", "ConfigMap edl-pods", "- name: hidden\n          mountPath: /data/edl\n", false},
		{"what jobs begin with", "", "ConfigMap edl-pods", "mountPath: /data/edl/states\n          subPath: edl/states\n", false},
		{"operator", "listener: {trainingJobs: true}", "Deployment edl", "- operator\n", false},
		{"rights of the operator", "listener: {trainingJobs: true}", "Role edl", "trainingjobs/status", false},
		{"rights of who looks at its jobs", "listener: {trainingJobs: true}", "Role edl-viewer", "pods/log", false},
		{"who looks stops none", "listener: {trainingJobs: true}", "Role edl-viewer", "delete", true},
		{"rights of who submits", "listener: {trainingJobs: true}", "Role edl-submitter", "trainingjobs/scale", false},
		{"a listener has them not", "", "Role edl", "trainingjobs", true},
		{"share of nodes", "listener: {maxLoad: '0.97'}", "ClusterRole edl-edl-room", "nodes", false},
		{"its flag", "listener: {maxLoad: '0.97'}", "Deployment edl", "--max-load=0.97", false},
		{"what jobs give their pods", "roles: {allow: ['claim=data-*']}", "Deployment edl", "--allow-pods=claim=data-*", false},
		{"key of a bucket", "listener: {envFrom: [{secretRef: {name: bucket}}]}", "Deployment edl", "name: bucket", false},
		{"environment", "listener: {env: [{name: A, value: b}]}", "Deployment edl", "name: A", false},
		{"identity of a cloud", "listener: {accountAnnotations: {role: training}}", "ServiceAccount edl", "role: training", false},
		{"flags", "listener: {flags: ['--max-roles=9']}", "Deployment edl", "--max-roles=9", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := yaml.Marshal(rendered(t, c.values)[c.object])
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(b), c.want) == c.not {
				t.Errorf("%s is\n%s\nwant %q (not: %t)", c.object, b, c.want, c.not)
			}
		})
	}
	if given := rendered(t, "etcd: {endpoints: ['https://a:2379']}"); given["StatefulSet edl-etcd"] != nil || given["Secret edl-etcd"] != nil {
		t.Error("the chart makes an etcd beside the one that is given")
	}
	template := map[string]any{}
	text := rendered(t, "roles: {nodeSelector: {pool: cpu}, tolerations: [{key: spot}], annotations: {a: b}, volumes: [{name: v, emptyDir: {}}], volumeMounts: [{name: v, mountPath: /v}], env: [{name: A, value: b}]}")["ConfigMap edl-pods"]["data"].(map[string]any)["template.yaml"].(string)
	if err := yaml.UnmarshalStrict([]byte(text), &template); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	spec := template["spec"].(map[string]any)
	mounts := spec["containers"].([]any)[0].(map[string]any)["volumeMounts"].([]any)
	if len(mounts) != 5 || len(spec["volumes"].([]any)) != 3 || spec["tolerations"] == nil || template["metadata"] == nil {
		t.Errorf("the template of pods is\n%s", text)
	}
}

// Values that no listener can have are refused before anything is made.
func TestValuesAreChecked(t *testing.T) {
	for _, values := range []string{"etcd: {replicas: 2}", "listener: {name: A_B}", "listener: {replica: 3}", "data: {path: data}", "data: {write: [edl]}", "data: {write: ['']}", "image: {repository: ''}", "other: 1", "roles: {allow: ['hostpath=/']}"} {
		if _, err := renderWith(values); err == nil {
			t.Errorf("%s is taken", values)
		}
	}
}

// The values that the documentation names are those of the chart, as helm reads them from a command.
func TestDocumentedValues(t *testing.T) {
	text, err := os.ReadFile("../../docs/kubernetes.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("--set ([^ `\n]+)").FindAllStringSubmatch(string(text), -1)
	if len(found) < 3 {
		t.Fatalf("%d times --set in the documentation", len(found))
	}
	for _, m := range found {
		values := map[string]any{}
		if err := strvals.ParseInto(strings.ReplaceAll(m[1], "REGISTRY", "registry.example"), values); err != nil {
			t.Errorf("%s: %v", m[0], err)
		} else if _, err := render(values, "edl"); err != nil {
			t.Errorf("%s: %v", m[0], err)
		}
	}
}
