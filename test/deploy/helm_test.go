package deploy

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

var (
	helm  = filepath.Join("..", "..", "deploy", "helm")
	chart = filepath.Join(helm, "svc")
)

// example is the values file that the documents name.
func example(t *testing.T) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(helm, "example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(raw, &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestLint(t *testing.T) {
	result := lint.AllWithKubeVersion(chart, example(t), "default", nil)
	for _, m := range result.Messages {
		// A missing icon of the chart is acceptable.
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}

// objects are the objects of a rendered chart, each decoded into its type: an unknown
// field is an error.
type objects struct {
	deployments  []apps.Deployment
	statefulSets []apps.StatefulSet
	services     []core.Service
	configMaps   []core.ConfigMap
	accounts     []core.ServiceAccount
	budgets      []policy.PodDisruptionBudget
	scalers      []autoscaling.HorizontalPodAutoscaler
	policies     []networking.NetworkPolicy
	monitors     []serviceMonitor
	rules        []prometheusRule
}

// serviceMonitor and prometheusRule are the fields of the Prometheus Operator's resources that the
// chart sets.
type serviceMonitor struct {
	APIVersion, Kind string
	Metadata         struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Selector  struct{ MatchLabels map[string]string }
		Endpoints []struct {
			Port, Interval string
			Relabelings    []struct{ Action, TargetLabel, Replacement string }
		}
	}
}

type prometheusRule struct {
	APIVersion, Kind string
	Metadata         struct {
		Name   string
		Labels map[string]string
	}
	Spec struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
}

func render(t *testing.T, values map[string]any) (objects, error) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	merged, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "svc", Namespace: "default", IsInstall: true}, chartutil.DefaultCapabilities)
	if err != nil {
		return objects{}, err
	}
	files, err := engine.Render(c, merged)
	if err != nil {
		return objects{}, err
	}
	var o objects
	for name, text := range files {
		if !strings.HasSuffix(name, ".yaml") {
			continue
		}
		for document := range strings.SplitSeq("\n"+text, "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			if err := o.decode(document); err != nil {
				t.Errorf("%s: %v\n%s", name, err, document)
			}
		}
	}
	return o, nil
}

func (o *objects) decode(document string) error {
	var head struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(document), &head); err != nil {
		return err
	}
	switch head.APIVersion + " " + head.Kind {
	case "apps/v1 Deployment":
		return strict(document, &o.deployments)
	case "apps/v1 StatefulSet":
		return strict(document, &o.statefulSets)
	case "v1 Service":
		return strict(document, &o.services)
	case "v1 ConfigMap":
		return strict(document, &o.configMaps)
	case "v1 ServiceAccount":
		return strict(document, &o.accounts)
	case "policy/v1 PodDisruptionBudget":
		return strict(document, &o.budgets)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return strict(document, &o.scalers)
	case "networking.k8s.io/v1 NetworkPolicy":
		return strict(document, &o.policies)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return strict(document, &o.monitors)
	case "monitoring.coreos.com/v1 PrometheusRule":
		return strict(document, &o.rules)
	}
	return fmt.Errorf("an object of kind %s %s", head.APIVersion, head.Kind)
}

func strict[T any](document string, list *[]T) error {
	var object T
	err := yaml.UnmarshalStrict([]byte(document), &object)
	*list = append(*list, object)
	return err
}

// pods are the pod templates, by the name of their controller.
func (o *objects) pods() map[string]core.PodTemplateSpec {
	all := map[string]core.PodTemplateSpec{}
	for _, d := range o.deployments {
		all[d.Name] = d.Spec.Template
	}
	for _, s := range o.statefulSets {
		all[s.Name] = s.Spec.Template
	}
	return all
}

func TestTemplate(t *testing.T) {
	plain := map[string]any{"image": map[string]any{"repository": "r"}}
	for name, values := range map[string]map[string]any{"example": example(t), "defaults": plain} {
		t.Run(name, func(t *testing.T) {
			o, err := render(t, values)
			if err != nil {
				t.Fatal(err)
			}
			if len(o.pods()) != 2 || len(o.budgets) != 2 || len(o.policies) != 2 || len(o.services) != 3 {
				t.Fatalf("%d controllers of pods, %d budgets, %d policies, %d services", len(o.pods()), len(o.budgets), len(o.policies), len(o.services))
			}
			if want := map[string]int{"example": 2, "defaults": 0}[name]; len(o.scalers) != want {
				t.Errorf("%d autoscalers, want %d", len(o.scalers), want)
			}
			for name, pod := range o.pods() {
				checkPod(t, name, pod)
			}
			checkSelectors(t, o)
		})
	}
}

// TestSecretsOfTheGateway: the secret of ${file:PATH} is mounted as a volume, whose files follow its changes.
func TestSecretsOfTheGateway(t *testing.T) {
	o, err := render(t, map[string]any{"image": map[string]any{"repository": "r"}, "gateway": map[string]any{"secretsSecret": "own"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range o.pods() {
		for _, v := range pod.Spec.Volumes {
			if v.Name != "secrets" {
				continue
			}
			if v.Secret.SecretName != "own" || *v.Secret.DefaultMode != 0o440 || !slices.ContainsFunc(pod.Spec.Containers[0].VolumeMounts, func(m core.VolumeMount) bool {
				return m.Name == "secrets" && m.MountPath == "/etc/svc-secrets" && m.SubPath == "" && m.ReadOnly
			}) {
				t.Errorf("%+v, %+v", v.Secret, pod.Spec.Containers[0].VolumeMounts)
			}
			return
		}
	}
	t.Error("no pod has the volume")
}

// TestMonitoring: with monitoring.enabled the chart has a ServiceMonitor and a PrometheusRule for
// each part. The monitor selects one service, gives its targets the job that the rules name, and
// both have the labels of the values.
func TestMonitoring(t *testing.T) {
	values := example(t)
	values["monitoring"] = map[string]any{"enabled": true, "labels": map[string]any{"release": "prometheus"}}
	o, err := render(t, values)
	if err != nil {
		t.Fatal(err)
	}
	if len(o.monitors) != 2 || len(o.rules) != 2 {
		t.Fatalf("%d monitors, %d rules", len(o.monitors), len(o.rules))
	}
	jobs := map[string]bool{}
	for _, m := range o.monitors {
		selected := 0
		for _, s := range o.services {
			matches := true
			for name, value := range m.Spec.Selector.MatchLabels {
				matches = matches && s.Labels[name] == value
			}
			if matches {
				selected++
				if len(s.Spec.Ports) != 1 || s.Spec.Ports[0].Name != m.Spec.Endpoints[0].Port {
					t.Errorf("%s: the service has no port %s", m.Metadata.Name, m.Spec.Endpoints[0].Port)
				}
			}
		}
		if selected != 1 || m.Metadata.Labels["release"] != "prometheus" || m.Spec.Endpoints[0].Interval != "30s" {
			t.Errorf("%s selects %d services: %+v", m.Metadata.Name, selected, m)
		}
		jobs[m.Spec.Endpoints[0].Relabelings[0].Replacement] = true
	}
	for _, r := range o.rules {
		group := r.Spec.Groups[0]
		if !jobs[group.Name] || len(group.Rules) < 10 || r.Metadata.Labels["release"] != "prometheus" {
			t.Errorf("%s: group %s with %d rules for the jobs %v", r.Metadata.Name, group.Name, len(group.Rules), jobs)
		}
	}
	checkSelectors(t, o)
}

// checkPod checks the requirements of every pod.
func checkPod(t *testing.T, name string, pod core.PodTemplateSpec) {
	spec := pod.Spec
	security := spec.SecurityContext
	if security == nil || security.RunAsNonRoot == nil || !*security.RunAsNonRoot || security.SeccompProfile == nil {
		t.Errorf("%s: %+v may be root", name, security)
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken {
		t.Errorf("%s: a token of the cluster is mounted", name)
	}
	if spec.Affinity == nil || spec.Affinity.PodAntiAffinity == nil || len(spec.TopologySpreadConstraints) == 0 {
		t.Errorf("%s: replicas may be on one node", name)
	}
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		s := c.SecurityContext
		if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("%s: container %s has %+v", name, c.Name, s)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: container %s has no bounds", name, c.Name)
		}
		for _, m := range c.VolumeMounts {
			if !slices.ContainsFunc(spec.Volumes, func(v core.Volume) bool { return v.Name == m.Name }) && m.Name != "state" {
				t.Errorf("%s: nothing is mounted as %s", name, m.Name)
			}
		}
	}
	for _, c := range spec.Containers {
		paths := []string{}
		for _, p := range []*core.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
			if p == nil || p.HTTPGet == nil {
				t.Fatalf("%s: container %s lacks a probe", name, c.Name)
			}
			paths = append(paths, p.HTTPGet.Path)
		}
		if !slices.Equal(paths, []string{"/healthz", "/healthz", "/readyz"}) {
			t.Errorf("%s: probes ask %v", name, paths)
		}
	}
}

// checkSelectors checks that services, budgets, policies and autoscalers select
// existing pods.
func checkSelectors(t *testing.T, o objects) {
	matches := func(kind, name string, selector map[string]string) core.PodTemplateSpec {
		for _, pod := range o.pods() {
			all := len(selector) > 0
			for k, v := range selector {
				all = all && pod.Labels[k] == v
			}
			if all {
				return pod
			}
		}
		t.Errorf("%s %s selects no pod: %v", kind, name, selector)
		return core.PodTemplateSpec{}
	}
	for _, s := range o.services {
		pod := matches("service", s.Name, s.Spec.Selector)
		for _, p := range s.Spec.Ports {
			named := func(c core.ContainerPort) bool { return c.Name == p.TargetPort.StrVal }
			if len(pod.Spec.Containers) == 0 || !slices.ContainsFunc(pod.Spec.Containers[0].Ports, named) {
				t.Errorf("service %s leads to port %v, which is none", s.Name, p.TargetPort)
			}
		}
	}
	for _, b := range o.budgets {
		matches("budget", b.Name, b.Spec.Selector.MatchLabels)
	}
	for _, p := range o.policies {
		matches("policy", p.Name, p.Spec.PodSelector.MatchLabels)
		if len(p.Spec.PolicyTypes) != 2 {
			t.Errorf("policy %s is for %v", p.Name, p.Spec.PolicyTypes)
		}
	}
	for _, s := range o.scalers {
		if _, ok := o.pods()[s.Spec.ScaleTargetRef.Name]; !ok {
			t.Errorf("autoscaler %s scales %s, which is not there", s.Name, s.Spec.ScaleTargetRef.Name)
		}
	}
}

func TestValuesThatAreRefused(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"no image":        {},
		"unknown":         {"replicas": 3},
		"unknown below":   {"image": map[string]any{"repository": "r"}, "plane": map[string]any{"replica": 3}},
		"a flag of ours":  {"image": map[string]any{"repository": "r"}, "plane": map[string]any{"settings": map[string]any{"listen": ":1"}}},
		"half a duration": {"image": map[string]any{"repository": "r"}, "plane": map[string]any{"drainWindow": "10"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(t, values); err == nil {
				t.Error("rendered")
			}
		})
	}
}
