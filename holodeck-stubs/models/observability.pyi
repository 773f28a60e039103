from holodeck_action.extensions.holodeck.models import AzureMonitorExporterConfig as AzureMonitorExporterConfig
from holodeck_action.extensions.tracing.settings import ConsoleExporter
ConsoleExporterConfig = ConsoleExporter
from holodeck_action.extensions.tracing.settings import Exporters
ExportersConfig = Exporters
from holodeck_action.extensions.holodeck.models import LogLevel as LogLevel
from holodeck_action.extensions.tracing.settings import Logs
LogsConfig = Logs
from holodeck_action.extensions.tracing.settings import MetricsExport
MetricsConfig = MetricsExport
from holodeck_action.extensions.tracing.settings import OTLPExporter
OTLPExporterConfig = OTLPExporter
from holodeck_action.extensions.holodeck.models import OTLPProtocol as OTLPProtocol
from holodeck_action.extensions.tracing.settings import Observability
ObservabilityConfig = Observability
from holodeck_action.extensions.holodeck.models import PrometheusExporterConfig as PrometheusExporterConfig
from holodeck_action.extensions.tracing.settings import Traces
TracingConfig = Traces
