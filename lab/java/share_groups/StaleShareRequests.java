import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.InitializeShareGroupStateRequestData;
import org.apache.kafka.common.message.InitializeShareGroupStateResponseData;
import org.apache.kafka.common.message.ReadShareGroupStateRequestData;
import org.apache.kafka.common.message.ReadShareGroupStateResponseData;
import org.apache.kafka.common.message.ShareAcknowledgeRequestData;
import org.apache.kafka.common.message.ShareAcknowledgeResponseData;
import org.apache.kafka.common.message.ShareFetchRequestData;
import org.apache.kafka.common.message.ShareFetchResponseData;
import org.apache.kafka.common.message.WriteShareGroupStateRequestData;
import org.apache.kafka.common.message.WriteShareGroupStateResponseData;

/**
 * StaleShareRequests COORDINATOR_PORT LEADER_PORT CLIENT GROUP TOPIC_ID PARTITION LEADER_EPOCH: asks a share coordinator in an older
 * leader epoch and in an older state epoch, and a leader in share session epochs that were used.
 */
public final class StaleShareRequests {
    private static final short STATE_VERSION = 0;
    private static final short SESSION_VERSION = 1;

    public static void main(String[] arguments) throws Exception {
        String client = arguments[2];
        String group = arguments[3];
        Uuid topic = Uuid.fromString(arguments[4]);
        int partition = Integer.parseInt(arguments[5]);
        int leaderEpoch = Integer.parseInt(arguments[6]);
        ClientEvent.of("started").print();
        try (Connection coordinator = new Connection(Integer.parseInt(arguments[0]), client)) {
            askCoordinator(coordinator, group, topic, partition, leaderEpoch);
        }
        try (Connection leader = new Connection(Integer.parseInt(arguments[1]), client)) {
            askLeader(leader, group);
        }
        ClientEvent.of("stopped").print();
    }

    private static void askCoordinator(Connection coordinator, String group, Uuid topic, int partition, int leaderEpoch) throws Exception {
        int stateEpoch = -1;
        for (int epoch : new int[] {leaderEpoch - 1, leaderEpoch}) {
            ReadShareGroupStateResponseData.PartitionResult state =
                new ReadShareGroupStateResponseData(coordinator.answer(read(group, topic, partition, epoch), STATE_VERSION), STATE_VERSION)
                    .results().get(0).partitions().get(0);
            report("READ_SHARE_GROUP_STATE leader_epoch", epoch - leaderEpoch, state.errorCode());
            stateEpoch = state.stateEpoch();
        }
        report("WRITE_SHARE_GROUP_STATE leader_epoch", -1, write(coordinator, group, topic, partition, leaderEpoch - 1, stateEpoch));
        report("WRITE_SHARE_GROUP_STATE leader_epoch", 0, write(coordinator, group, topic, partition, leaderEpoch, stateEpoch));
        report("WRITE_SHARE_GROUP_STATE state_epoch", -1, write(coordinator, group, topic, partition, leaderEpoch, stateEpoch - 1));
        InitializeShareGroupStateRequestData older = new InitializeShareGroupStateRequestData().setGroupId(group).setTopics(List.of(
            new InitializeShareGroupStateRequestData.InitializeStateData().setTopicId(topic).setPartitions(List.of(
                new InitializeShareGroupStateRequestData.PartitionData().setPartition(partition).setStateEpoch(stateEpoch - 1)
                    .setStartOffset(0)))));
        report("INITIALIZE_SHARE_GROUP_STATE state_epoch", -1,
            new InitializeShareGroupStateResponseData(coordinator.answer(older, STATE_VERSION), STATE_VERSION).results().get(0).partitions()
                .get(0).errorCode());
    }

    private static ReadShareGroupStateRequestData read(String group, Uuid topic, int partition, int leaderEpoch) {
        return new ReadShareGroupStateRequestData().setGroupId(group).setTopics(List.of(
            new ReadShareGroupStateRequestData.ReadStateData().setTopicId(topic).setPartitions(List.of(
                new ReadShareGroupStateRequestData.PartitionData().setPartition(partition).setLeaderEpoch(leaderEpoch)))));
    }

    private static short write(Connection coordinator, String group, Uuid topic, int partition, int leaderEpoch, int stateEpoch)
        throws Exception {
        WriteShareGroupStateRequestData request = new WriteShareGroupStateRequestData().setGroupId(group).setTopics(List.of(
            new WriteShareGroupStateRequestData.WriteStateData().setTopicId(topic).setPartitions(List.of(
                new WriteShareGroupStateRequestData.PartitionData().setPartition(partition).setLeaderEpoch(leaderEpoch)
                    .setStateEpoch(stateEpoch).setStartOffset(-1)))));
        return new WriteShareGroupStateResponseData(coordinator.answer(request, STATE_VERSION), STATE_VERSION).results().get(0)
            .partitions().get(0).errorCode();
    }

    /** A share session without partitions: each of its epochs is sent twice, and once more when the session is closed. */
    private static void askLeader(Connection leader, String group) throws Exception {
        String member = Uuid.randomUuid().toString();
        report("SHARE_FETCH opens", 0, fetch(leader, group, member, 0));
        report("SHARE_FETCH session_epoch", 0, fetch(leader, group, member, 1));
        report("SHARE_FETCH session_epoch", -1, fetch(leader, group, member, 1));
        report("SHARE_ACKNOWLEDGE session_epoch", 0, acknowledge(leader, group, member, 2));
        report("SHARE_ACKNOWLEDGE session_epoch", -1, acknowledge(leader, group, member, 2));
        report("SHARE_ACKNOWLEDGE closes", 0, acknowledge(leader, group, member, -1));
        report("SHARE_FETCH closed", -1, fetch(leader, group, member, 3));
    }

    private static short fetch(Connection leader, String group, String member, int sessionEpoch) throws Exception {
        ShareFetchRequestData request = new ShareFetchRequestData().setGroupId(group).setMemberId(member)
            .setShareSessionEpoch(sessionEpoch).setMaxWaitMs(100).setMinBytes(0).setMaxBytes(100000).setMaxRecords(100).setBatchSize(100);
        return new ShareFetchResponseData(leader.answer(request, SESSION_VERSION), SESSION_VERSION).errorCode();
    }

    private static short acknowledge(Connection leader, String group, String member, int sessionEpoch) throws Exception {
        ShareAcknowledgeRequestData request = new ShareAcknowledgeRequestData().setGroupId(group).setMemberId(member)
            .setShareSessionEpoch(sessionEpoch);
        return new ShareAcknowledgeResponseData(leader.answer(request, SESSION_VERSION), SESSION_VERSION).errorCode();
    }

    private static void report(String command, int distance, short errorCode) {
        ClientEvent.of(errorCode == 0 ? "answered" : "refused").with("command", command).with("distance", distance)
            .with("error", String.valueOf(errorCode)).print();
    }
}
