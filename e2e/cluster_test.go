//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	controller    = 100
	clusterID     = "MkU3OEVBNTcwNTJENDM2Qg"
	metadataTopic = "__remote_log_metadata"
)

var brokerIDs = []int{1, 2, 3}

// A cluster is a controller and three brokers of Apache Kafka, tiered by its own LocalTieredStorage and topic-based
// metadata manager. The controller is a node of its own so that any two brokers may die.
type cluster struct {
	dir       string // everything they write
	classPath string
	ports     map[int]int
	nodes     map[int]*process // running, or not collected yet
}

// newCluster formats the nodes' directories; start runs them.
func newCluster(ctx context.Context, dir, classPath string) (*cluster, error) {
	c := &cluster{dir: dir, classPath: classPath, nodes: map[int]*process{}}
	var err error
	if c.ports, err = freePorts(append([]int{controller}, brokerIDs...)); err != nil {
		return nil, err
	}
	for node := range c.ports {
		if err := os.MkdirAll(c.nodeDir(node), 0o755); err != nil {
			return nil, err
		}
		var file strings.Builder
		settings := c.settings(node)
		for _, name := range slices.Sorted(maps.Keys(settings)) {
			fmt.Fprintf(&file, "%s=%s\n", name, settings[name])
		}
		if err := os.WriteFile(c.properties(node), []byte(file.String()), 0o644); err != nil {
			return nil, err
		}
		format := c.java(ctx, node, "kafka.tools.StorageTool", "format", "-t", clusterID, "-c", c.properties(node))
		if out, err := format.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("format of node %d: %w\n%s", node, err, out)
		}
	}
	return c, nil
}

// freePorts finds a port for each node that nobody listens on. All are held open until the last is found, so that they
// differ.
func freePorts(nodes []int) (map[int]int, error) {
	ports := map[int]int{}
	for _, node := range nodes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		ports[node] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

func (c *cluster) nodeDir(node int) string    { return filepath.Join(c.dir, fmt.Sprintf("node-%d", node)) }
func (c *cluster) logDir(node int) string     { return filepath.Join(c.nodeDir(node), "log") }
func (c *cluster) properties(node int) string { return filepath.Join(c.nodeDir(node), "properties") }
func (c *cluster) output(node int) string     { return filepath.Join(c.nodeDir(node), "output") }
func (c *cluster) address(node int) string    { return fmt.Sprintf("127.0.0.1:%d", c.ports[node]) }

// store is the root under which LocalTieredStorage keeps the segments of all brokers.
func (c *cluster) store() string { return filepath.Join(c.dir, "store", "kafka-tiered-storage") }

func (c *cluster) bootstrap() (addresses []string) {
	for _, id := range brokerIDs {
		addresses = append(addresses, c.address(id))
	}
	return addresses
}

// settings make everything that waits in production happen within a second: tiering, local and total retention,
// cleaning, and noticing that a broker is dead (3 s).
func (c *cluster) settings(node int) map[string]string {
	s := map[string]string{
		"node.id":                   fmt.Sprint(node),
		"controller.quorum.voters":  fmt.Sprintf("%d@%s", controller, c.address(controller)),
		"controller.listener.names": "CONTROLLER",
		"log.dirs":                  c.logDir(node),
		"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
		"unclean.leader.election.interval.ms":      "2000",
		"leader.imbalance.check.interval.seconds":  "3600", // leaders move when a test says so
		"auto.create.topics.enable":                "false",
		"offsets.topic.replication.factor":         "3",
		"offsets.topic.num.partitions":             "3",
		"transaction.state.log.replication.factor": "3",
		"transaction.state.log.min.isr":            "1",
		"transaction.state.log.num.partitions":     "3",

		"replica.lag.time.max.ms":          "4000",
		"group.initial.rebalance.delay.ms": "0",

		"remote.log.storage.system.enable":                                 "true",
		"remote.log.storage.manager.class.name":                            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
		"remote.log.storage.manager.impl.prefix":                           "rsm.config.",
		"rsm.config.dir":                                                   filepath.Dir(c.store()),
		"remote.log.metadata.manager.class.name":                           "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
		"remote.log.metadata.manager.impl.prefix":                          "rlmm.config.",
		"remote.log.metadata.manager.listener.name":                        "PLAINTEXT",
		"rlmm.config.remote.log.metadata.topic.num.partitions":             "10",
		"rlmm.config.remote.log.metadata.topic.replication.factor":         "3",
		"rlmm.config.remote.log.metadata.topic.min.isr":                    "1",
		"rlmm.config.remote.log.metadata.initialization.retry.interval.ms": "100",

		"remote.log.manager.task.interval.ms":           "500",
		"log.retention.check.interval.ms":               "500",
		"log.initial.task.delay.ms":                     "500",
		"log.segment.delete.delay.ms":                   "100",
		"log.cleaner.backoff.ms":                        "500",
		"log.cleaner.dedupe.buffer.size":                "4194304",
		"replica.high.watermark.checkpoint.interval.ms": "1000",
	}
	if node == controller {
		s["process.roles"] = "controller"
		s["listeners"] = "CONTROLLER://" + c.address(node)
	} else {
		s["process.roles"] = "broker"
		s["listeners"] = "PLAINTEXT://" + c.address(node)
	}
	return s
}

func (c *cluster) java(ctx context.Context, node int, arguments ...string) *exec.Cmd {
	// One compiler tier and one collector thread: short lives on few cores.
	flags := []string{"-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", "-cp", c.classPath}
	cmd := exec.CommandContext(ctx, "java", append(flags, arguments...)...)
	cmd.Dir = c.nodeDir(node) // the storage module's test jar brings a logging set-up that writes into it
	return cmd
}

// start runs nodes and waits until each serves.
func (c *cluster) start(ctx context.Context, nodes ...int) error {
	for _, node := range nodes {
		p, err := start(c.java(ctx, node, "kafka.Kafka", c.properties(node)), c.output(node))
		if err != nil {
			return err
		}
		c.nodes[node] = p
	}
	for _, node := range nodes {
		if err := c.serving(ctx, node); err != nil {
			return err
		}
	}
	return nil
}

// serving waits until a node says that it has started since it was run last.
func (c *cluster) serving(ctx context.Context, node int) error {
	waitCtx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	return eventually(waitCtx, func() error {
		if c.nodes[node].ended() {
			return fmt.Errorf("node %d ended: see %s", node, c.output(node))
		}
		out, err := os.ReadFile(c.output(node))
		if err != nil {
			return err
		}
		lastRun := out[max(0, bytes.LastIndex(out, []byte("registered kafka:type=kafka.Log4jController"))):]
		if !bytes.Contains(lastRun, []byte("Kafka Server started")) {
			return fmt.Errorf("node %d has not said that it started", node)
		}
		conn, err := net.Dial("tcp", c.address(node))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// kill ends a node like a power cut.
func (c *cluster) kill(node int) {
	c.nodes[node].kill()
	delete(c.nodes, node)
}

// close kills what still runs.
func (c *cluster) close() {
	for node := range c.nodes {
		c.kill(node)
	}
}

// eventually asks again until there is no error, or the context ends: then the last error is the answer. Other
// processes change what it asks about, and have no other way to tell.
func eventually(ctx context.Context, condition func() error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := condition()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-tick.C:
		}
	}
}
