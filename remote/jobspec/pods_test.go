package jobspec_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/edl-go/edl/fault"
	"github.com/edl-go/edl/proto/job"
	"github.com/edl-go/edl/remote/jobspec"
)

// What a job file says of pods is for all roles, and what it says of trainers or pservers comes over that.
func TestPods(t *testing.T) {
	s, err := load(t, `
queue: main
pod:
  image: registry.example/edl:1
  env: {A: 1, B: "2"}
  nodeSelector: {pool: cpu}
  tolerations: [{key: spot, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists}]}]}}}
trainer_pod:
  env: {B: "3"}
  tolerations: [{key: slow, value: "1", effect: NoExecute, tolerationSeconds: 5}]
  volumes: [{claim: records, mountPath: /mnt/records, subPath: a/b, readOnly: true}, {scratchMiB: 64, mountPath: /mnt/cache}]
pserver_pod: {serviceAccountName: reader, priorityClassName: high, annotations: {example.org/a: b}, envFrom: [secret/bucket]}
`)
	if err != nil {
		t.Fatal(err)
	}
	trainer, pserver, coordinator := jobspec.Pods(s)
	if s.Queue != "main" || !jobspec.HasPods(s) || !proto.Equal(coordinator, s.Pod) || !strings.Contains(coordinator.Affinity, `"key":"a"`) {
		t.Errorf("the coordinator has %v", coordinator)
	}
	if trainer.Image != "registry.example/edl:1" || fmt.Sprint(trainer.Env) != "map[A:1 B:3]" || len(trainer.Tolerations) != 2 || *trainer.Tolerations[1].Seconds != 5 || len(trainer.Volumes) != 2 ||
		trainer.Volumes[1].Scratch != 64<<20 || trainer.Volumes[0].SubPath != "a/b" || trainer.NodeSelector["pool"] != "cpu" {
		t.Errorf("trainers have %v", trainer)
	}
	if pserver.ServiceAccount != "reader" || pserver.PriorityClass != "high" || fmt.Sprint(pserver.Env) != "map[A:1 B:2]" || len(pserver.Volumes) != 0 || pserver.EnvFrom[0] != "secret/bucket" {
		t.Errorf("pservers have %v", pserver)
	}
	standby := jobspec.PodOf(&job.RoleSpec{Role: job.Role_STANDBY, Spec: s})
	if !proto.Equal(standby, pserver) {
		t.Errorf("standbys have %v", standby)
	}
	if jobspec.HasPods(&job.JobSpec{}) || !proto.Equal(jobspec.PodOf(&job.RoleSpec{Role: job.Role_TRAINER}), &job.Pod{}) {
		t.Error("a job that says nothing of pods has some")
	}
}

// What Kubernetes would refuse, and what is not for jobs, is refused by name.
func TestWrongPods(t *testing.T) {
	for text, says := range map[string]string{
		"hostNetwork: true":                                                     "unknown field hostNetwork",
		"securityContext: {}":                                                   "unknown field securityContext",
		"volumes: [{hostPath: /, mountPath: /mnt/a}]":                           "unknown field hostPath",
		"image: 'a b'":                                                          `pod.image "a b"`,
		"serviceAccountName: A":                                                 "pod.serviceAccountName",
		"priorityClassName: -a":                                                 "pod.priorityClassName",
		"nodeSelector: {'a b': c}":                                              "pod.nodeSelector",
		"nodeSelector: {a: '-'}":                                                "pod.nodeSelector",
		"annotations: {'/a': c}":                                                "pod.annotations",
		"env: {EDL_POD_ROLE: /x}":                                               "EDL's",
		"env: {TMPDIR: /x}":                                                     "EDL's",
		"env: {a=b: c}":                                                         "pod.env",
		"env: {A: " + strings.Repeat("x", 5000) + "}":                           "4096 bytes",
		"envFrom: [edl]":                                                        "secret/NAME",
		"tolerations: [{value: a}]":                                             "no value with Exists",
		"tolerations: [{key: a, operator: Like}]":                               "Equal or Exists",
		"tolerations: [{key: a, effect: Never}]":                                "NoSchedule",
		"tolerations: [{key: a, tolerationSeconds: 1}]":                         "NoExecute",
		"volumes: [{claim: a}]":                                                 "mountPath below",
		"volumes: [{claim: a, mountPath: /etc/edl}]":                            "mountPath below",
		"volumes: [{claim: a, mountPath: /mnt/../etc}]":                         "mountPath below",
		"volumes: [{mountPath: /mnt/a}]":                                        "one of claim",
		"volumes: [{claim: a, secret: b, mountPath: /mnt}]":                     "one of claim",
		"volumes: [{claim: a, mountPath: /mnt, subPath: ../b}]":                 "subPath",
		"volumes: [{secret: a, mountPath: /mnt, subPath: b}]":                   "subPath",
		"volumes: [{scratchMiB: -1, mountPath: /mnt}]":                          "scratchMiB -1",
		"volumes: [{claim: a, mountPath: /mnt}, {claim: b, mountPath: /mnt}]":   "twice at /mnt",
		"volumes: [" + strings.Repeat("{claim: a, mountPath: /mnt},", 33) + "]": "33 entries",
		"affinity: {a: " + strings.Repeat("x", 17<<10) + "}":                    "16 KiB",
	} {
		if _, err := load(t, "pod: {"+text+"}"); !errors.Is(err, fault.InvalidArgument) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.60s: %v, want %s", text, err, says)
		}
	}
	if _, err := load(t, "queue: A"); !errors.Is(err, fault.InvalidArgument) {
		t.Errorf("a queue: %v", err)
	}
}
