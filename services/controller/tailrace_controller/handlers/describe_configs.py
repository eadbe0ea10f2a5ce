"""DescribeConfigs v1-4. v1: synonyms (KIP-226). v3: type and documentation (KIP-569). Per-broker configs of a
broker are that broker's to describe; here they are described from the cluster's common settings."""

from tailrace.errors import ErrorCode
from tailrace.metadata.image import MetadataImage
from tailrace.net.context import Context
from tailrace.net.limits.answer_budget import TOO_LARGE, AnswerBudget, text_bytes
from tailrace.wire.messages import DescribeConfigsRequest, DescribeConfigsResponse
from tailrace_controller.decide import describe_configs
from tailrace_controller.role import ControllerRole

_ENTRY_BYTES = 16  # of a config or a synonym, short of its texts
_Result = DescribeConfigsResponse.DescribeConfigsResult


async def handle(request: DescribeConfigsRequest, context: Context, role: ControllerRole) -> DescribeConfigsResponse:
    """Describes one image; MESSAGE_TOO_LARGE for a resource that the answer has no room for."""
    controller = role.controller

    def described(image: MetadataImage) -> DescribeConfigsResponse:
        budget = AnswerBudget()
        results = describe_configs.described(image, request, controller.config)
        return DescribeConfigsResponse(results=[_fitting(result, budget) for result in results])

    return await controller.read(described)


def _fitting(result: _Result, budget: AnswerBudget) -> _Result:
    if budget.take(sum(map(_size_bytes, result.configs))):
        return result
    return _Result(
        error_code=ErrorCode.MESSAGE_TOO_LARGE,
        error_message=TOO_LARGE,
        resource_type=result.resource_type,
        resource_name=result.resource_name,
        configs=[],
    )


def _size_bytes(row: _Result.DescribeConfigsResourceResult) -> int:
    size = _ENTRY_BYTES + text_bytes(row.name) + text_bytes(row.value) + text_bytes(row.documentation)
    return size + sum(_ENTRY_BYTES + text_bytes(one.name) + text_bytes(one.value) for one in row.synonyms)
